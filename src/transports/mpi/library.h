// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace topknot {

/// What the MPI library calls itself, as "Open MPI v4.1.4"; works before MPI has started. In the
/// library topknot_mpi.
std::string mpi_library();

}  // namespace topknot
