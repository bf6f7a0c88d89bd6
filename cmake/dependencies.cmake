# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)

set(TOPKNOT_HAVE_MPI OFF)
if(NOT TOPKNOT_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)  # the C interface is all we use
  find_package(MPI COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TOPKNOT_HAVE_MPI ON)
  elseif(TOPKNOT_MPI STREQUAL "ON")
    message(FATAL_ERROR "TOPKNOT_MPI is ON but no MPI was found: install libopenmpi-dev or "
      "libmpich-dev, or set TOPKNOT_MPI=OFF.")
  endif()
endif()
