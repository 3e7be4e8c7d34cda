# Every third-party library of muster is found here, and nowhere else.
# docs/dependencies.md lists them with version, reason and licence; script/dependencies installs them.
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(DEFLATE_INCLUDE_DIR libdeflate.h REQUIRED)
find_library(DEFLATE_LIBRARY deflate REQUIRED)

add_library(muster_asio INTERFACE)
target_include_directories(muster_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
target_compile_definitions(muster_asio INTERFACE ASIO_NO_DEPRECATED)
target_link_libraries(muster_asio INTERFACE Threads::Threads)

add_library(muster_deflate INTERFACE)
target_include_directories(muster_deflate SYSTEM INTERFACE ${DEFLATE_INCLUDE_DIR})
target_link_libraries(muster_deflate INTERFACE ${DEFLATE_LIBRARY})

find_path(HTTPLIB_INCLUDE_DIR httplib.h REQUIRED)
find_library(HTTPLIB_LIBRARY cpp-httplib REQUIRED)
add_library(muster_httplib INTERFACE)
target_include_directories(muster_httplib SYSTEM INTERFACE ${HTTPLIB_INCLUDE_DIR})
target_link_libraries(muster_httplib INTERFACE ${HTTPLIB_LIBRARY} OpenSSL::SSL Threads::Threads)
# With what Debian built the library: its classes have other members without it.
target_compile_definitions(muster_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
                                                    CPPHTTPLIB_BROTLI_SUPPORT)

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
