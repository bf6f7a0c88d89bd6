// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::collective {

/// How messages travel. `direct`: P-1 messages from each rank, and no byte is sent more often
/// than it must be. `log`: ceil(log2 P) packets (Bruck), in which messages are passed on, for
/// when latency rules.
enum class Route { direct, log };

}  // namespace topknot::collective
