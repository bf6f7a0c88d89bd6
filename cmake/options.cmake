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
  # Without this it does not keep what is compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
