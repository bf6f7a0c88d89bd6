// SPDX-License-Identifier: Apache-2.0
//
// Quantities as people write them: 14.7M, 10Gbps, 20us.
#pragma once

#include <string>

namespace topknot::cli {

/// "14.7M" is 14,700,000: K, M, G or B, and T; no unit is one. Each throws ConfigError, with what
/// would be right, for what is no such quantity or not above 0.
double parse_count(const std::string& text);
/// Gb/s: "1Gbps", "100Mbps", "2.5Gbit"; a plain number is in Gb/s.
double parse_gbps(const std::string& text);
/// Seconds, which may be 0: "20us", "1.5ms", "0.1s", "50ns"; a plain number is in seconds.
double parse_seconds(const std::string& text);

}  // namespace topknot::cli
