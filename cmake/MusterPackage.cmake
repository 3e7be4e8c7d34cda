# cpack -G DEB: muster_VERSION_amd64.deb with the two programs, for Debian 12. libtorch is no Debian
# package: `muster doctor --fix` fetches it to lib/muster/libtorch, where the package's muster-worker
# looks for it.
if(NOT PROJECT_IS_TOP_LEVEL OR NOT TARGET muster OR NOT TARGET muster-worker)
  return()
endif()
install(PROGRAMS script/fetch-wheels DESTINATION ${CMAKE_INSTALL_DATADIR}/muster COMPONENT package EXCLUDE_FROM_ALL)
install(FILES script/libtorch.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/muster COMPONENT package EXCLUDE_FROM_ALL)
install(FILES muster/comm/backend/mpi/module/muster_mpi.c muster/comm/backend/mpi/module/muster_mpi.h
        DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/mpi COMPONENT package EXCLUDE_FROM_ALL)
install(FILES muster/comm/backend/nccl/module/muster_nccl.c muster/comm/backend/nccl/module/muster_nccl.h
        DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/nccl COMPONENT package EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/muster RENAME copyright COMPONENT package EXCLUDE_FROM_ALL)
install(FILES jobs/fashion.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/muster/examples COMPONENT package EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the developers of muster <muster@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime package)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_NAME muster)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3-venv, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS dataset-fashion-mnist)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/package/postrm)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${MUSTER_TORCH_ROOT}/lib)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package/rpath.cmake)
include(CPack)
