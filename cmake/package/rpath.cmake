# Called by cpack before it packs: where the package's muster-worker looks for libtorch, and not in the
# folder in which it was built, which stands behind that (MusterInstall.cmake).
file(GLOB_RECURSE workers ${CPACK_TEMPORARY_DIRECTORY}/muster-worker)
if(NOT workers)
  message(FATAL_ERROR "there is no muster-worker below ${CPACK_TEMPORARY_DIRECTORY}")
endif()
foreach(worker ${workers})
  file(RPATH_SET FILE ${worker} NEW_RPATH "$ORIGIN/../lib/muster/libtorch/torch/lib")
endforeach()
