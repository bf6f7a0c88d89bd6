// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::cli {

/// From now on the process prints what to set before it dies of SIGILL. A virtual machine may
/// announce instructions that it does not grant, and torch uses them.
void explain_illegal_instructions();

}  // namespace topknot::cli
