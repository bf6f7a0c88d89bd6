// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::cli {

/// From now on a SIGILL that ends the process says first what may be done about it. A virtual
/// machine may announce instructions that it does not grant, and torch believes it.
void explain_illegal_instructions();

}  // namespace topknot::cli
