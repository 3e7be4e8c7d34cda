# CTest reads this before it runs tests (TEST_INCLUDE_FILES), with `program`, `name` and `properties`
# set: each suite of the GoogleTest program becomes a CTest test. Asking the program again is left
# out where it has not changed since.
if(NOT EXISTS ${program})
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
  return()
endif()
set(listing ${program}_suites.txt)
if(NOT EXISTS ${listing} OR ${program} IS_NEWER_THAN ${listing})
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_FILE ${listing} TIMEOUT 60
                  RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    file(REMOVE ${listing})
    message(FATAL_ERROR "${program} --gtest_list_tests: ${result}")
  endif()
endif()
# A suite's line ends on a point, or has its type behind it; those of its cases are indented.
file(STRINGS ${listing} suites REGEX "^[^ ]+\\.( |$)")
foreach(line ${suites})
  string(REGEX REPLACE "\\..*" "" suite "${line}")
  if(NOT suite MATCHES "DISABLED_")
    add_test(${suite} ${program} --gtest_filter=${suite}.*)
    set_tests_properties(${suite} PROPERTIES ${properties})
  endif()
endforeach()
