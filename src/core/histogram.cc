// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include "core/select.h"
#include "core/sweep.h"

namespace topknot::core {

namespace {

constexpr unsigned kShift = 20;

// Neighbours often fall into the same bin, and an increment must then wait for the one
// before it; with four tables in turn it waits four times less.
constexpr std::size_t kTables = 4;

// For fewer than that, clearing and adding up the tables costs more than they save.
constexpr std::size_t kShort = 8192;

// Adding up is nothing beside as many, and 32-bit counters hold them.
constexpr std::size_t kStretch = std::size_t{1} << 20;

std::size_t bin_of(float x) { return magnitude_bits(x) >> kShift; }

void add_stretch(std::span<const float> x, Histogram& bins) {
  std::array<std::array<std::uint32_t, kHistogramBins>, kTables> tables = {};
  std::size_t i = 0;
  for (; i + kTables <= x.size(); i += kTables) {
    for (std::size_t t = 0; t < kTables; ++t) ++tables[t][bin_of(x[i + t])];
  }
  for (; i < x.size(); ++i) ++tables[0][bin_of(x[i])];
  for (const auto& table : tables) {
    for (std::size_t b = 0; b < kHistogramBins; ++b) bins[b] += table[b];
  }
}

}  // namespace

void add_to_histogram(std::span<const float> x, Histogram& bins) {
  if (x.size() < kShort) {
    for (const float v : x) ++bins[bin_of(v)];
    return;
  }
  while (!x.empty()) {
    const std::size_t length = std::min(x.size(), kStretch);
    add_stretch(x.first(length), bins);
    x = x.subspan(length);
  }
}

float histogram_bin_floor(std::size_t bin) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bin) << kShift);
}

}  // namespace topknot::core
