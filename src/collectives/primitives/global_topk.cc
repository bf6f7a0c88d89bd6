// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/global_topk.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "collectives/primitives/words.h"
#include "core/merge.h"

namespace topknot::collective {
namespace {

// As a bit pattern: above all that is finite.
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kFineWidth = 1U << 13;  // of a bin near the last threshold: 0.1 %
constexpr std::uint32_t kFewestBins = 64;
constexpr std::uint32_t kMostBins = 512;

std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

// Few enough that two rounds take no more than a quarter of k words.
std::uint32_t bins_for(std::size_t k, int ranks) {
  const auto rounds =
      static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(
      k / (8 * std::max<std::size_t>(rounds, 1)), kFewestBins, kMostBins));
}

}  // namespace

void GlobalTopK::keep_largest(MessageChannel& channel, Sparse& held, std::size_t k) {
  channel.enter("agree");
  if (std::any_of(held.value.begin(), held.value.end(),
                  [](float value) { return magnitude_bits(value) >= kInfinity; })) {
    channel.report_nonfinite();
    held.clear();
  }
  if (k == 0) return held.clear();
  const std::uint32_t bins = bins_for(k, channel.size());
  Search search{0, kInfinity, k, 0};
  for (bool first = true; first || search.need < search.count; first = false) {
    if (search.end - search.begin == 1) return keep_ties(channel, search, held);
    cut(search, first, bins);
    count(held);
    sum_counts(channel, counts_);
    if (first) total_ = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
    narrow(search);
  }
  last_ = search.begin;
  core::keep_if(held, [&](float value) { return magnitude_bits(value) >= search.begin; });
}

void GlobalTopK::visit_state(StateVisitor& visitor) { visitor.field("agreed", last_); }

float GlobalTopK::threshold() const noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(last_));
}

// The bins of a round: on the first one fine near the last threshold, a quarter of them
// left for all the rest; later, equal.
void GlobalTopK::cut(const Search& search, bool first, std::uint32_t bins) {
  segments_.clear();
  if (!first || last_ == 0) {
    segments_.push_back(
        {search.begin, search.end, std::min(bins, search.end - search.begin)});
    return;
  }
  const std::uint32_t reach = bins * 3 / 8 * kFineWidth;
  const auto last =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(last_, kInfinity - 1));
  const std::uint32_t low = last > reach ? last - reach : 0;
  const std::uint32_t high = std::min(last + reach, kInfinity);
  const std::uint32_t coarse = bins / 8;
  if (low > 0) segments_.push_back({0, low, std::min(coarse, low)});
  segments_.push_back({low, high, (high - low + kFineWidth - 1) / kFineWidth});
  if (high < kInfinity)
    segments_.push_back({high, kInfinity, std::min(coarse, kInfinity - high)});
}

void GlobalTopK::count(const Sparse& held) {
  const std::uint32_t bins = std::accumulate(
      segments_.begin(), segments_.end(), 0U,
      [](std::uint32_t sum, const Segment& segment) { return sum + segment.bins; });
  counts_.assign(bins, 0);
  for (const float value : held.value) {
    const std::uint32_t bits = magnitude_bits(value);
    std::uint32_t first_bin = 0;
    for (const Segment& segment : segments_) {
      if (bits >= segment.begin && bits < segment.end) {
        ++counts_[first_bin + (bits - segment.begin) / segment.width()];
        break;
      }
      first_bin += segment.bins;
    }
  }
}

// Goes down from the largest magnitudes until `need` are found.
void GlobalTopK::narrow(Search& search) const {
  std::size_t bin = counts_.size();
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    for (std::uint32_t i = segment->bins; i-- > 0;) {
      search.count = counts_[--bin];
      search.begin = std::min(segment->begin + i * segment->width(), segment->end);
      search.end = std::min(search.begin + segment->width(), segment->end);
      if (search.count >= search.need) return;
      search.need -= search.count;
    }
  }
  // There are not as many as wanted: all that there are.
  search.need = search.count = 0;
}

void GlobalTopK::keep_ties(MessageChannel& channel, const Search& search, Sparse& held) {
  last_ = search.begin;
  const auto mine = static_cast<std::uint32_t>(
      std::count_if(held.value.begin(), held.value.end(),
                    [&](float value) { return magnitude_bits(value) == search.begin; }));
  const std::vector<std::uint32_t> ties = gather_words(channel, std::span(&mine, 1));
  std::uint64_t quota = search.need;
  for (int rank = 0; rank < channel.rank(); ++rank)
    quota -= std::min<std::uint64_t>(quota, ties[at(rank)]);
  core::keep_if(held, [&](float value) {
    const std::uint32_t bits = magnitude_bits(value);
    if (bits != search.begin) return bits > search.begin;
    if (quota == 0) return false;
    --quota;
    return true;
  });
}

}  // namespace topknot::collective
