// SPDX-License-Identifier: Apache-2.0
#include "core/shortlist.h"

#include <bit>
#include <cmath>

#include "core/select.h"

namespace topknot::core {
namespace {

constexpr std::size_t kSpare = 64;
constexpr std::size_t kFew = 65536;  // so many too many are not worth sorting out early

float smallest_magnitude(std::span<const float> values) {
  std::uint32_t least = kInfinityBits;
  for (const float v : values) least = std::min(least, magnitude_bits(v));
  return std::bit_cast<float>(least);
}

}  // namespace

void Shortlist::begin(std::size_t n, std::size_t k, Sparse& pairs) {
  k_ = std::min(k, n);
  least_ = std::min(2 * k_ + 1, n);
  pairs.clear();
}

std::uint32_t Shortlist::add(const BlockHits& hits, std::uint32_t floor, Sparse& pairs) {
  pairs.append(hits.view());
  if (pairs.size() <= 2 * least_ + kFew) return floor;
  // The gradient has grown, or this is a vector of equals. Later ones must beat the least
  // of those that we keep, since ties go to the lower index.
  keep_largest(pairs, least_);
  floor_ = smallest_magnitude(pairs.value);
  return magnitude_bits(floor_) + 1;
}

void Shortlist::complete(std::span<float> residual, Sparse& pairs) {
  if (pairs.size() >= least_) return;
  pairs.clear();
  floor_ = floor_over(residual, least_);
  // Cannot fail: every coordinate is finite, having been swept before.
  static_cast<void>(sweep(residual, {}, floor_of(floor_),
                          [&](const BlockHits& hits, std::uint32_t floor) {
                            return add(hits, floor, pairs);
                          }));
}

void Shortlist::cut(float threshold, Sparse& pairs) {
  const std::size_t listed = pairs.size();
  const std::uint32_t floor = floor_of(threshold);
  std::uint32_t* const index = pairs.index.data();
  float* const value = pairs.value.data();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < listed; ++i) {
    index[kept] = index[i];
    value[kept] = value[i];
    kept += magnitude_bits(value[kept]) >= floor ? 1 : 0;
  }
  pairs.resize(kept);
  aim(threshold, kept, listed);
}

float Shortlist::cut_to(std::size_t k, Sparse& pairs) {
  const std::size_t listed = pairs.size();
  keep_largest(pairs, k);
  if (pairs.empty()) return 0;
  const float smallest = smallest_magnitude(pairs.value);
  aim(smallest, pairs.size(), listed);
  return smallest;
}

// Two points of the tail are known: how many reach the floor and how many the threshold.
// Through them goes the power law that says where the next floor should be.
void Shortlist::aim(float threshold, std::size_t kept, std::size_t listed) {
  const auto count = static_cast<double>(kept);
  const double ratio = static_cast<double>(listed) / count;
  double slope = 4;
  if (kept > 0 && floor_ > 0 && floor_ < threshold && ratio > 1.05)
    slope = std::clamp(std::log(ratio) / std::log(threshold / floor_), 0.5, 50.0);
  const double wanted = 2.5 * static_cast<double>(k_) + kSpare;
  const double fall = std::pow(count / wanted, 1 / slope);
  floor_ = threshold * static_cast<float>(std::clamp(fall, 0.05, 1.0));
}

float floor_over(std::span<const float> x, std::size_t least) {
  Histogram bins = {};
  add_to_histogram(x, bins);
  std::size_t bin = kNonFiniteBin;
  for (std::size_t above = 0; bin > 0 && above < least;) above += bins[--bin];
  return histogram_bin_floor(bin);
}

float as_threshold(double x) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (!(x > 0)) return 0;
  return x < static_cast<double>(kLargest) ? static_cast<float>(x) : kLargest;
}

void add_to(Moments& total, const Moments& stretch) {
  total.sum += stretch.sum;
  total.sum_magnitude += stretch.sum_magnitude;
  total.sum_square += stretch.sum_square;
  total.max_magnitude = std::max(total.max_magnitude, stretch.max_magnitude);
}

}  // namespace topknot::core
