# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the libraries, the public headers, the command, and
# what find_package(topknot) and pkg-config need to find them.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/topknot)

# Before 1.0 a minor version may break what was compiled against the last one.
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(topknot PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
install(TARGETS topknot EXPORT topknotTargets)
install(EXPORT topknotTargets NAMESPACE topknot:: DESTINATION ${config_folder})

# An export of its own, so that programs without MPI need not find any.
if(TOPKNOT_HAVE_MPI)
  set_target_properties(topknot_mpi PROPERTIES INSTALL_RPATH $ORIGIN
    VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
  install(TARGETS topknot_mpi EXPORT topknotMpiTargets)
  install(EXPORT topknotMpiTargets NAMESPACE topknot:: DESTINATION ${config_folder})
endif()

file(RELATIVE_PATH library_from_command
  ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(command_rpath $ORIGIN/${library_from_command})
if(TOPKNOT_HAVE_TORCH)  # it stays where it is, in the wheel
  cmake_path(GET TORCH_LIBRARY PARENT_PATH torch_folder)
  list(APPEND command_rpath ${torch_folder})
endif()
set_target_properties(topknot_command PROPERTIES INSTALL_RPATH "${command_rpath}")
install(TARGETS topknot_command)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/topknot
  FILES_MATCHING PATTERN "*.toml" PATTERN "*.sh")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/topknot
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/topknotConfig.cmake.in topknotConfig.cmake
  INSTALL_DESTINATION ${config_folder}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(topknotConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/topknotConfig.cmake
  ${PROJECT_BINARY_DIR}/topknotConfigVersion.cmake
  DESTINATION ${config_folder})

# A static library leaves its own needs to whoever links it.
if(BUILD_SHARED_LIBS)
  set(requires "Requires.private")
else()
  set(requires "Requires")
endif()
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/topknot.pc.in topknot.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/topknot.pc DESTINATION ${pkgconfig_folder})
