# muster_layer(NAME [TORCH] [COLD] [BULK] [DEPENDS target…])
#   Folder = layer = target = namespace. Takes every .cc of the folder tree (not of subfolders that
#   have a CMakeLists.txt of their own) into the library muster_NAME, and every *_test.cc beside the
#   sources into one test program, muster_NAME_test. A new file needs no edit anywhere.
#   COLD: nothing in it runs while a step computes or communicates; see muster_cold().
#   BULK: its tests work through so much that they need an optimised build; see muster_bulk().
# muster_leaf(NAME …) is the same for a leaf (backend, format, sink, store, launcher):
#   only app and tests link it.

# A warning stops whoever works on muster, not whoever only builds it to use it.
set(MUSTER_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    $<$<NOT:$<CONFIG:Release>>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overflows inside its own std::string that are not there (bugs 105329, 105651), at -O3
  # more of them. Where it compiles several files as one, it takes their anonymous namespaces for a
  # header's.
  list(APPEND MUSTER_WARNINGS -Wno-restrict -Wno-stringop-overflow
       $<$<BOOL:${CMAKE_UNITY_BUILD}>:-Wno-subobject-linkage>)
else()
  # std::stable_sort of GCC 12's library uses what it calls deprecated itself; pragmas against GCC's
  # false alarms name warnings that others do not have.
  list(APPEND MUSTER_WARNINGS -Wno-deprecated-declarations -Wno-unknown-warning-option)
endif()

function(muster_common target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  # A product and a sum that some processors do at once are rounded twice on all: the same bits.
  target_compile_options(${target} PRIVATE ${MUSTER_WARNINGS} -ffp-contract=off)
  if(MUSTER_CHECKED OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_definitions(${target} PRIVATE MUSTER_CHECKED=1)
  endif()
  if(MUSTER_SANITIZE)
    # GCC and clang tell a program in different ways.
    target_compile_definitions(${target} PUBLIC MUSTER_SANITIZED=1)
    if(MUSTER_SANITIZE STREQUAL "thread")
      target_compile_definitions(${target} PUBLIC MUSTER_SANITIZED_THREAD=1)
    endif()
    target_compile_options(${target} PUBLIC -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer)
    if(MUSTER_SANITIZE MATCHES "undefined")
      # Half of what it takes to build; AddressSanitizer sees the same where it does harm.
      target_compile_options(${target} PUBLIC -fno-sanitize=null,object-size,vptr)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${MUSTER_SANITIZE})
  endif()
endfunction()

# Half of what it takes to build is optimising code that runs once a second at most.
function(muster_cold target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# Minutes of tests where nothing is optimised; precompiled headers are for one kind of optimisation.
function(muster_bulk target)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${target} PRIVATE -O1)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

set(MUSTER_PRECOMPILED <algorithm> <chrono> <cstdint> <functional> <map> <memory> <mutex> <optional>
    <span> <string> <string_view> <variant> <vector> <fmt/format.h>)

# muster_precompiled(KIND HEADERS … LINKS …): the target muster_KIND_precompiled. Three precompiled
# headers serve all targets: making one takes 25 s with libtorch and 4 s without, and each is some
# hundred megabytes.
function(muster_precompiled kind)
  cmake_parse_arguments(arg "" "" "HEADERS;LINKS" ${ARGN})
  set(target muster_${kind}_precompiled)
  if(TARGET ${target})
    return()
  endif()
  add_library(${target} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  muster_common(${target})
  target_link_libraries(${target} PRIVATE fmt::fmt ${arg_LINKS})
  target_precompile_headers(${target} PRIVATE ${MUSTER_PRECOMPILED} ${arg_HEADERS})
endfunction()

# Without libtorch, the test programs add gtest.
function(muster_precompile target torch tests)
  if(torch)
    set(kind torch)
    muster_precompiled(torch HEADERS ${PROJECT_SOURCE_DIR}/cmake/torch_pch.h LINKS muster::base torch)
  elseif(tests)
    set(kind test)
    muster_precompiled(test HEADERS <gtest/gtest.h> <gmock/gmock.h> LINKS GTest::gtest GTest::gmock)
  else()
    set(kind core)
    muster_precompiled(core)
  endif()
  target_compile_options(${target} PRIVATE -fPIC)  # executables too: the flags must be the same
  target_precompile_headers(${target} REUSE_FROM muster_${kind}_precompiled)
endfunction()

function(muster_collect out_sources out_tests)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  file(GLOB_RECURSE nested CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CMakeLists.txt)
  foreach(list_file ${nested})
    get_filename_component(folder ${list_file} DIRECTORY)
    if(folder)
      list(FILTER all EXCLUDE REGEX "^${folder}/")
    endif()
  endforeach()
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER all EXCLUDE REGEX "_test\\.cc$")
  set(${out_sources} ${all} PARENT_SCOPE)
  set(${out_tests} ${tests} PARENT_SCOPE)
endfunction()

function(muster_layer name)
  cmake_parse_arguments(arg "TORCH;COLD;BULK" "" "DEPENDS;TEST_DEPENDS" ${ARGN})
  muster_collect(sources tests)
  set(target muster_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    muster_common(${target})
    muster_precompile(${target} "${arg_TORCH}" FALSE)
    if(arg_COLD)
      muster_cold(${target})
    endif()
    target_link_libraries(${target} PUBLIC ${arg_DEPENDS})
    if(arg_TORCH)
      target_link_libraries(${target} PUBLIC torch)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
  endif()
  add_library(muster::${name} ALIAS ${target})
  if(NOT name MATCHES "testing$")
    if(arg_TORCH)
      set_property(GLOBAL APPEND PROPERTY MUSTER_TORCH_LAYERS ${target})
    else()
      set_property(GLOBAL APPEND PROPERTY MUSTER_CORE_LAYERS ${target})
    endif()
  endif()
  if(MUSTER_TESTS AND tests)
    muster_test(${target}_test TORCH ${arg_TORCH} SOURCES ${tests}
                DEPENDS ${target} ${arg_TEST_DEPENDS})
  endif()
  if(arg_BULK)
    muster_bulk(${target})
    if(TARGET ${target}_test)
      muster_bulk(${target}_test)
    endif()
  endif()
endfunction()

macro(muster_leaf)
  muster_layer(${ARGV})
endmacro()

# muster_test(NAME TORCH <bool> SOURCES … DEPENDS … [LABELS …]): one GoogleTest program, each of its
# cases a CTest test; with libtorch each of its suites, since a program takes half a second to load it.
function(muster_test name)
  cmake_parse_arguments(arg "" "TORCH" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  muster_common(${name})
  muster_cold(${name})
  muster_precompile(${name} "${arg_TORCH}" TRUE)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main
                                        muster_rapidcheck)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE torch)
  endif()
  set(properties TIMEOUT 1200)  # for whole suites, on a machine that does other things besides
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(arg_TORCH)
    set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
    file(GENERATE OUTPUT ${suites} CONTENT "set(program $<TARGET_FILE:${name}>)
set(name ${name})
set(properties ${properties})
include(${PROJECT_SOURCE_DIR}/cmake/AddSuites.cmake)
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
    return()
  endif()
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()
