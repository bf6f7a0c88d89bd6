# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
# Its -DUTF8PROC_EXPORTS is for Windows, and would part those that share precompiled headers.
set_property(TARGET PkgConfig::utf8proc PROPERTY INTERFACE_COMPILE_OPTIONS)
pkg_check_modules(sndfile REQUIRED IMPORTED_TARGET sndfile)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)

# libtorch is the one of the pip wheel; by default that in .venv, where scripts/setup puts it.
set(TOPKNOT_HAVE_TORCH OFF)
if(NOT TOPKNOT_TORCH STREQUAL "OFF")
  file(GLOB torch_in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake)
  list(APPEND CMAKE_PREFIX_PATH ${torch_in_venv})
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # it warns of libraries that nobody needs
  find_package(Torch 2.13 QUIET)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  if(Torch_FOUND)
    set(TOPKNOT_HAVE_TORCH ON)
  elseif(TOPKNOT_TORCH STREQUAL "ON")
    message(FATAL_ERROR "TOPKNOT_TORCH is ON but no libtorch 2.13 was found: run scripts/setup, "
      "or give the folder of TorchConfig.cmake as Torch_DIR, or set TOPKNOT_TORCH=OFF.")
  endif()
endif()

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
