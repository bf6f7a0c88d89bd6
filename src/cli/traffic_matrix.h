// SPDX-License-Identifier: Apache-2.0
//
// Who has sent how much to whom in a run, and who has waited for whom.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "topknot/transports.h"

namespace topknot::cli {

/// Sums over steps; [from][to], of waits [who][for whom].
struct TrafficMatrix {
  std::uint64_t steps = 0;
  std::vector<std::vector<double>> bytes;
  std::vector<std::vector<double>> messages;
  std::vector<std::vector<double>> wait_seconds;
};

/// All ranks together: the matrix on rank 0, an empty one on others.
TrafficMatrix gather_traffic(Transport& link, const Traffic& mine, std::uint64_t steps);

/// traffic.json, and back. Without all its fields `json` gives an empty matrix.
nlohmann::ordered_json to_json(const TrafficMatrix& matrix);
TrafficMatrix traffic_in(const nlohmann::ordered_json& json);

/// "rank 2 sent most, 1.31 times the mean"; empty where nothing was sent.
std::string describe_imbalance(const TrafficMatrix& matrix);
/// "rank 1 waited longest, most of it for rank 3: 2.10 of 3.40 ms a step"; empty where none did.
std::string describe_waits(const TrafficMatrix& matrix);

}  // namespace topknot::cli
