# libtorch as the imported target `torch`. The wheel's own find_package(Torch) stops where the CUDA
# toolkit is missing, so the two CPU libraries are named directly; CUDA is loaded at run time.
# -DTorch_DIR=<…/share/cmake/Torch> of another libtorch >= 2.11 is accepted.
if(Torch_DIR)
  get_filename_component(MUSTER_TORCH_ROOT ${Torch_DIR}/../../.. ABSOLUTE)
elseif(MUSTER_TORCH_BUILT_WITH)  # by an installed muster
  set(MUSTER_TORCH_ROOT ${MUSTER_TORCH_BUILT_WITH})
else()
  set(MUSTER_TORCH_ROOT ${PROJECT_SOURCE_DIR}/.deps/libtorch/torch)
endif()
if(NOT EXISTS ${MUSTER_TORCH_ROOT}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not at ${MUSTER_TORCH_ROOT}: run script/dependencies, "
                      "or pass -DTorch_DIR=<libtorch>/share/cmake/Torch, or use --preset core")
endif()

# What `muster --version` says, which does not link it. In the header: TORCH_VERSION_MAJOR, _MINOR, _PATCH.
set(MUSTER_TORCH_VERSION unknown)
set(version_header ${MUSTER_TORCH_ROOT}/include/torch/headeronly/version.h)
if(EXISTS ${version_header})
  file(STRINGS ${version_header} numbers REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
  list(JOIN numbers "." MUSTER_TORCH_VERSION)
endif()

add_library(torch INTERFACE IMPORTED GLOBAL)
# After the system's include folders: the wheel carries its own fmt, protobuf, pybind11.
target_compile_options(torch INTERFACE
  "SHELL:-idirafter ${MUSTER_TORCH_ROOT}/include"
  "SHELL:-idirafter ${MUSTER_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(torch INTERFACE
  ${MUSTER_TORCH_ROOT}/lib/libtorch_cpu.so ${MUSTER_TORCH_ROOT}/lib/libc10.so)
get_filename_component(MUSTER_TORCH_SITE ${MUSTER_TORCH_ROOT}/.. ABSOLUTE)
target_link_options(torch INTERFACE
  -Wl,-rpath,${MUSTER_TORCH_ROOT}/lib -Wl,--disable-new-dtags
  -Wl,-rpath-link,${MUSTER_TORCH_SITE}/nvidia/cu13/lib)
