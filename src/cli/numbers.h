// SPDX-License-Identifier: Apache-2.0
//
// Numbers and lists as people write them on a command line, and as they like to read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::cli {

/// 4096, 64k, 1M, 2G (thousands), 4Ki, 1Mi, 1Gi (of 1024) and 1e6. Throws ConfigError that begins
/// with `flag`.
std::uint64_t parse_count(std::string_view flag, std::string_view text);

/// "8,64,4k" as numbers.
std::vector<std::uint64_t> parse_counts(std::string_view flag, std::string_view text);

/// "knot,oktopk:tau=64,cap=2,dense" as its three names: a word with = belongs to the parameters
/// before it.
std::vector<std::string> split_specs(std::string_view text);

/// 1234567 as "1,234,567".
std::string with_commas(std::uint64_t number);
/// "41.2 kB"
std::string bytes_text(double bytes);
/// "1 min 42 s"
std::string duration_text(double seconds);

}  // namespace topknot::cli
