# NCCL and the CUDA run time that it stands on: NCCL_FOUND, NCCL_INCLUDE_DIRS, NCCL_LIBRARIES.
# Looks where the system and the CUDA toolkit have them, and below NCCL_ROOT, a list: of prefixes, or
# of the folder `nvidia` of a Python's site-packages, where pip puts nvidia-nccl-cu13 (or -cu12) with
# the wheels of the run time.
set(nccl_hints "")
foreach(root ${NCCL_ROOT} $ENV{NCCL_ROOT})
  list(APPEND nccl_hints ${root} ${root}/nccl ${root}/cu13 ${root}/cuda_runtime ${root}/cuda_nvcc)
endforeach()
list(APPEND nccl_hints $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl_hints} PATH_SUFFIXES include)
find_path(NCCL_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${nccl_hints} PATH_SUFFIXES include)
# Of the compiler's wheel, where pip brings them.
find_path(NCCL_CRT_INCLUDE_DIR crt/host_defines.h HINTS ${nccl_hints} PATH_SUFFIXES include)
# Wheels have the libraries without the names that a linker looks for.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${nccl_hints} PATH_SUFFIXES lib lib64)
find_library(NCCL_CUDA_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12 NAMES_PER_DIR HINTS ${nccl_hints}
             PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR
                                  NCCL_CRT_INCLUDE_DIR NCCL_LIBRARY NCCL_CUDA_LIBRARY)
set(NCCL_INCLUDE_DIRS ${NCCL_INCLUDE_DIR} ${NCCL_CUDA_INCLUDE_DIR} ${NCCL_CRT_INCLUDE_DIR})
set(NCCL_LIBRARIES ${NCCL_LIBRARY} ${NCCL_CUDA_LIBRARY})
list(REMOVE_DUPLICATES NCCL_INCLUDE_DIRS)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR NCCL_CRT_INCLUDE_DIR NCCL_LIBRARY NCCL_CUDA_LIBRARY)
