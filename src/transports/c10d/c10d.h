// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topknot/transports.h"

namespace topknot {

/// This process's end of a channel between all ranks of the torch process group named `group`,
/// which must be a Gloo group that nothing else uses. `hosts` has the host of each rank, as
/// Transport::node_of; if it is empty, every rank has a host of its own. Throws ConfigError where
/// the group cannot be used. Needs torch, and so is in the Python package, not in the library.
std::unique_ptr<Transport> make_c10d(const std::string& group, std::vector<int> hosts,
                                     const LinkOptions& options = {});

}  // namespace topknot
