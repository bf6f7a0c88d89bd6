// SPDX-License-Identifier: Apache-2.0
//
// AMX, the tile instructions of Intel's processors, which a virtual machine may announce and
// not grant: torch, which believes the announcement, is then ended by SIGILL.
#pragma once

#include <string>

namespace topknot::python {

/// Whether the processor announces AMX and yet a child process that uses it dies, or the kernel
/// does not allow it to.
bool amx_is_refused();

/// From now on a SIGILL that ends the process writes `sentence` to standard error first. Does
/// nothing where there is a handler for it already.
void say_at_sigill(const std::string& sentence);

}  // namespace topknot::python
