# cmake --install: the two programs, the layers as libraries, the headers that users include and what
# these include, and a package for find_package(muster COMPONENTS …). A component is a layer: those
# below libtorch (base, comm, data, checkpoint, …) need none of it; `app` is muster::App.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(MUSTER_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/muster)

# What users include; everything else in the install tree is there because these include it.
set(MUSTER_PUBLIC_HEADERS
    muster/comm/communicator.h muster/comm/backend/loopback/loopback.h
    muster/comm/backend/native/native.h muster/comm/backend/nccl/nccl.h
    muster/data/batch_stream.h muster/data/sampler.h muster/data/formats/idx/idx.h
    muster/data/formats/text/text.h
    muster/checkpoint/checkpointer.h muster/checkpoint/safetensors.h muster/checkpoint/verify.h
    muster/checkpoint/weights.h)
if(TARGET muster_own)
  list(APPEND MUSTER_PUBLIC_HEADERS muster/app.h muster/checkpointer.h muster/join.h muster/sampler.h
       muster/models/dropout.h muster/models/layers.h)
endif()

function(muster_collect_headers header)
  get_property(known GLOBAL PROPERTY MUSTER_INSTALLED_HEADERS)
  if(header IN_LIST known OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY MUSTER_INSTALLED_HEADERS ${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"muster/")
  foreach(include ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${include}")
    muster_collect_headers(${included})
  endforeach()
endfunction()

foreach(header ${MUSTER_PUBLIC_HEADERS})
  muster_collect_headers(${header})
endforeach()
get_property(headers GLOBAL PROPERTY MUSTER_INSTALLED_HEADERS)
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

# muster_install_layers(EXPORT layers…)
function(muster_install_layers export)
  foreach(layer ${ARGN})
    string(REGEX REPLACE "^muster_" "" name ${layer})
    if(layer STREQUAL "muster_own")
      set(name app)
    endif()
    set_target_properties(${layer} PROPERTIES EXPORT_NAME ${name})
  endforeach()
  install(TARGETS ${ARGN} EXPORT ${export} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/muster
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${export} NAMESPACE muster:: DESTINATION ${MUSTER_PACKAGE})
endfunction()

get_property(MUSTER_CORE_LAYERS GLOBAL PROPERTY MUSTER_CORE_LAYERS)
get_property(MUSTER_TORCH_LAYERS GLOBAL PROPERTY MUSTER_TORCH_LAYERS)
muster_install_layers(muster-core ${MUSTER_CORE_LAYERS})
if(MUSTER_TORCH_LAYERS)
  muster_install_layers(muster-torch ${MUSTER_TORCH_LAYERS})
endif()

# What runs without the rest, as a Debian package has it (MusterPackage.cmake).
foreach(program muster muster-worker)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../lib/muster/libtorch/torch/lib" INSTALL_RPATH_USE_LINK_PATH TRUE)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  endif()
endforeach()

# muster(1) and the completions, as the program that is installed tells of itself.
if(TARGET muster)
  foreach(told "help man" "completion bash" "completion zsh")
    string(REPLACE " " "-" file "muster-${told}.txt")
    separate_arguments(words UNIX_COMMAND "${told}")
    list(JOIN words "\" \"" words)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:muster>\" \"${words}\"
                                  OUTPUT_FILE \"${PROJECT_BINARY_DIR}/${file}\" COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT runtime)
  endforeach()
  install(FILES ${PROJECT_BINARY_DIR}/muster-help-man.txt DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          RENAME muster.1 COMPONENT runtime)
  install(FILES ${PROJECT_BINARY_DIR}/muster-completion-bash.txt RENAME muster
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT runtime)
  install(FILES ${PROJECT_BINARY_DIR}/muster-completion-zsh.txt RENAME _muster
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT runtime)
endif()

# The components, as people name them.
set(MUSTER_CORE_COMPONENTS ${MUSTER_CORE_LAYERS})
list(TRANSFORM MUSTER_CORE_COMPONENTS REPLACE "^muster_" "")
set(MUSTER_TORCH_COMPONENTS ${MUSTER_TORCH_LAYERS})
list(TRANSFORM MUSTER_TORCH_COMPONENTS REPLACE "^muster_" "")
list(TRANSFORM MUSTER_TORCH_COMPONENTS REPLACE "^own$" "app")
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/muster-config.cmake.in
                              ${PROJECT_BINARY_DIR}/muster-config.cmake
                              INSTALL_DESTINATION ${MUSTER_PACKAGE})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/muster-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/muster-config.cmake ${PROJECT_BINARY_DIR}/muster-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/MusterFind.cmake ${PROJECT_SOURCE_DIR}/cmake/MusterTorch.cmake
        DESTINATION ${MUSTER_PACKAGE})
