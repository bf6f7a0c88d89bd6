// SPDX-License-Identifier: Apache-2.0
//
// held_back: ranks that are threads, as if a network were between them. Each message is held back
// as long as the network would take: the real clock goes on, and everything else is as it was. So
// a benchmark on one machine, without root, shows what a slow link does to a collective. The
// network's delays are those of the simulator (network.h); scripts/cluster has real sockets.
#pragma once

#include <memory>
#include <vector>

#include "topknot/simulated.h"
#include "topknot/transport.h"

namespace topknot {

/// The ends of a channel, rank by rank, before those of `links`, which are threads of this process.
/// A native allreduce takes as long as a ring would.
std::vector<std::unique_ptr<Transport>> make_held_back(
    std::vector<std::unique_ptr<Transport>> links, const Network& network);

}  // namespace topknot
