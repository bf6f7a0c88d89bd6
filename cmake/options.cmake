# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled. Linked privately, so that users of the library see none of it.
add_library(topknot_options INTERFACE)
target_compile_options(topknot_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror
  # The same bits on every target: no fused multiply-add, and no fast-math anywhere.
  -ffp-contract=off)

set(TOPKNOT_SANITIZE "" CACHE STRING "Sanitizers to build everything with, as in -fsanitize=")
if(TOPKNOT_SANITIZE)
  add_compile_options(-fsanitize=${TOPKNOT_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TOPKNOT_SANITIZE})
  add_compile_definitions(TOPKNOT_SANITIZED)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the first it does not keep what is compiled with a precompiled header. With the
  # others all clones on a machine share one cache, wherever they lie.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# ---- headers that nearly every file includes, compiled once for all of them. Names are still
# included where they are used: the fuzzers' clang, and -DTOPKNOT_PCH=OFF, compile without.
option(TOPKNOT_PCH "Precompile the headers that most files include (g++)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR BUILD_SHARED_LIBS)
  set(TOPKNOT_PCH OFF)  # one library with -fPIC and one without cannot share
endif()
set(TOPKNOT_STANDARD_HEADERS <algorithm> <array> <bit> <charconv> <chrono> <cmath> <cstdint>
  <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set>
  <span> <string> <string_view> <thread> <utility> <vector>)

# topknot_precompile(TARGET HEADERS...) makes them, topknot_precompile(TARGET REUSE_FROM OTHER)
# takes those of a target that is compiled with the same options and no other definitions.
function(topknot_precompile target)
  if(TOPKNOT_PCH)
    if(ARGV1 STREQUAL "REUSE_FROM")
      target_precompile_headers(${target} REUSE_FROM ${ARGV2})
    else()
      target_precompile_headers(${target} PRIVATE ${ARGN})
    endif()
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
  endif()
endfunction()
