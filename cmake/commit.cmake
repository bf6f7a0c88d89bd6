# SPDX-License-Identifier: Apache-2.0
# Writes the commit that the sources are of to FILE, when that has changed:
#
#   cmake -DSOURCE=... -DFILE=... -P commit.cmake
#
# "unknown" where there is no repository or no git; "-dirty" where something was edited since.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${SOURCE}/.git)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT [[
#include "cli/machine.h"

std::string topknot::cli::built_from() { return "@commit@"; }
]] @ONLY)
