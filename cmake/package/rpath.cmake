# Called by cpack before it packs: where the package's muster-worker looks for libtorch, instead of in
# the folder in which it was built, which is named there twice, so that this fits in.
file(GLOB_RECURSE workers ${CPACK_TEMPORARY_DIRECTORY}/muster-worker)
foreach(worker ${workers})
  file(RPATH_SET FILE ${worker} NEW_RPATH "$ORIGIN/../lib/muster/libtorch/torch/lib")
endforeach()
