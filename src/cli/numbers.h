// SPDX-License-Identifier: Apache-2.0
//
// Lists of names as people write them, and numbers as they like to read them. quantity.h reads
// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::cli {

/// "knot,oktopk:tau=64,cap=2,dense" as its three names: a word with = belongs to the parameters
/// before it.
std::vector<std::string> split_specs(std::string_view text);

/// `part` of `whole`, 0 where that is 0.
double share(double part, double whole);
/// To divide by.
double at_least_one(std::uint64_t count);

/// 1234567 as "1,234,567".
std::string with_commas(std::uint64_t number);
/// "1 epoch", "1,404 epochs"
std::string counted(std::uint64_t number, const char* what);
/// "41.2 kB"
std::string bytes_text(double bytes);
/// "1 min 42 s"
std::string duration_text(double seconds);

}  // namespace topknot::cli
