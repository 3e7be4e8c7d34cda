# What muster's layers stand on, for its own build and for projects that find an installed muster.
# MUSTER_FIND_CORE alone: what the layers without libtorch below the job file need.
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(DEFLATE_INCLUDE_DIR libdeflate.h REQUIRED)
find_library(DEFLATE_LIBRARY deflate REQUIRED)
find_package(PNG REQUIRED)
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
find_path(CSV_INCLUDE_DIR csv.h REQUIRED)
find_library(CSV_LIBRARY csv REQUIRED)

# muster_found(NAME include folder, library…): an imported target, so that exports name it only.
macro(muster_found name folder)
  if(NOT TARGET ${name})
    add_library(${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${name} SYSTEM INTERFACE ${folder})
    target_link_libraries(${name} INTERFACE ${ARGN})
  endif()
endmacro()

muster_found(muster_asio ${ASIO_INCLUDE_DIR} Threads::Threads)
target_compile_definitions(muster_asio INTERFACE ASIO_NO_DEPRECATED)
muster_found(muster_deflate ${DEFLATE_INCLUDE_DIR} ${DEFLATE_LIBRARY})
muster_found(muster_turbojpeg ${TURBOJPEG_INCLUDE_DIR} ${TURBOJPEG_LIBRARY})
muster_found(muster_csv ${CSV_INCLUDE_DIR} ${CSV_LIBRARY})

if(NOT MUSTER_FIND_CORE)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 REQUIRED)
  find_path(HTTPLIB_INCLUDE_DIR httplib.h REQUIRED)
  find_library(HTTPLIB_LIBRARY cpp-httplib REQUIRED)
  muster_found(muster_httplib ${HTTPLIB_INCLUDE_DIR} ${HTTPLIB_LIBRARY} OpenSSL::SSL Threads::Threads)
  # With what Debian built the library: its classes have other members without it.
  target_compile_definitions(muster_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
                                                      CPPHTTPLIB_BROTLI_SUPPORT)
endif()
