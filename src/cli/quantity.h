// SPDX-License-Identifier: Apache-2.0
//
// Quantities as people write them on a command line: 14.7M, 4Mi, 10Gbps, 20us. Each function throws
// ConfigError, with what would be right, for what is no such quantity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::cli {

/// 4096, 64k, 14.7M, 2G or 2B, 1T (of 1000), 4Ki, 1Mi, 1Gi (of 1024) and 1e6: a whole number from
/// `least` to 10^15. The sentence of a refusal begins with `flag`.
std::uint64_t parse_count(std::string_view flag, std::string_view text,
                          std::uint64_t least = 0);
/// "8,64,4k" as counts.
std::vector<std::uint64_t> parse_counts(std::string_view flag, std::string_view text);
/// Gb/s above 0: "1Gbps", "100Mbps", "2.5Gbit"; a plain number is in Gb/s.
double parse_gbps(const std::string& text);
/// Seconds, which may be 0: "20us", "1.5ms", "0.1s", "50ns"; a plain number is in seconds.
double parse_seconds(const std::string& text);

}  // namespace topknot::cli
