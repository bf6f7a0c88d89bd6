#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh COMPILER SOURCE PROGRAM: builds PROGRAM with what pkg-config says, and runs it.
set -eu
flags=$(pkg-config --cflags --libs topknot)
# shellcheck disable=SC2086  # several words
"$1" -std=c++20 "$2" $flags -o "$3"
# A shared library in a prefix of our own is not where the system looks.
LD_LIBRARY_PATH=$(pkg-config --variable=libdir topknot) "$3"
