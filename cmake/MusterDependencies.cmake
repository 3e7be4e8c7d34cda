# Every third-party library of muster is found here and in MusterFind.cmake, which those who use an
# installed muster need as well, and nowhere else.
# docs/dependencies.md lists them with version, reason and licence; script/dependencies installs them.
include(MusterFind)

if(MUSTER_TESTS)
  find_package(GTest REQUIRED)
  find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(muster_rapidcheck INTERFACE)
  target_include_directories(muster_rapidcheck SYSTEM INTERFACE ${RAPIDCHECK_INCLUDE_DIR})
  target_link_libraries(muster_rapidcheck INTERFACE ${RAPIDCHECK_LIBRARY})
endif()

if(MUSTER_TORCH)
  include(MusterTorch)
endif()

find_program(MUSTER_MOLD mold)
if(MUSTER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSTER_CCACHE})
endif()
