#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh COMPILER SOURCE PROGRAM: builds PROGRAM with what pkg-config says, and runs it.
set -eu
compiler=$1 source=$2 program=$3
eval "set -- $(pkg-config --cflags --libs topknot)"  # quoted as for a shell
"$compiler" -std=c++20 "$source" "$@" -o "$program"
# A shared library in a prefix of our own is not where the system looks.
LD_LIBRARY_PATH=$(pkg-config --variable=libdir topknot) "$program"
