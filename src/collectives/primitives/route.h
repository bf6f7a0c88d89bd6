// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::collective {

/// How messages travel. `direct`: each rank to each by itself, P-1 messages. `ring`: as many, and
/// they are passed on from neighbour to neighbour. `log`: ceil(log2 P) packets (Bruck), in which
/// messages are passed on, for when latency rules.
enum class Route { direct, ring, log };

}  // namespace topknot::collective
