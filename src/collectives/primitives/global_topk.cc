// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/global_topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>

#include "collectives/primitives/words.h"
#include "core/finite.h"
#include "core/front.h"
#include "core/plant.h"

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

}  // namespace

// Few enough that two rounds take no more than a quarter of k words.
std::uint32_t GlobalTopK::bins(std::size_t k, int ranks) {
  const auto others = static_cast<unsigned>(ranks - 1);
  const std::size_t messages = at_once(ranks) ? others : std::bit_width(others);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(
      k / (8 * std::max<std::size_t>(messages, 1)), kFewestBins, kMostBins));
}

void GlobalTopK::keep_largest(MessageChannel& channel, Sparse& held, std::size_t k) {
  channel.enter("agree");
  if (!core::all_finite(held.value)) {
    channel.report_nonfinite();
    held.clear();
  }
  kept_by_.assign(at_once(channel.size()) ? at(channel.size()) : 0, 0);
  if (k == 0) return held.clear();
  in_search_ = held.value;
  const std::uint32_t bins = GlobalTopK::bins(k, channel.size());
  Search search{0, kInfinity, k, 0, 0};
  for (bool first = true; first || search.need < search.count; first = false) {
    // Less than 1 only where a peer has counted what cannot be: the next message shows it.
    if (search.end - search.begin <= 1)
      return keep_ties(channel.rank(), search.begin, search.need,
                       counts_of_each(channel, search), held);
    if (!first && at_once(channel.size()) && search.count <= 2 * bins)
      return keep_by_values(channel, search, held);
    cut(search, first, bins);
    count();
    add_up(channel);
    if (first) total_ = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
    narrow(search);
    if (search.need < search.count) drop_outside(search);
  }
  last_ = search.begin;
  core::keep_above(held, search.begin + TOPKNOT_PLANT(threshold_off_by_one), held.size());
}

void GlobalTopK::visit_state(StateVisitor& visitor) { visitor.field("agreed", last_); }

float GlobalTopK::threshold() const noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(last_));
}

// The bins of a round: on the first one fine near the last threshold, a quarter of them
// left for all the rest; later, equal, but for the smallest magnitude. A bin begins where
// rounded values are, and they come in crowds.
void GlobalTopK::cut(const Search& search, bool first, std::uint32_t bins) {
  segments_.clear();
  if (!first) segments_.push_back({search.begin, search.begin + 1, 1});
  if (!first || last_ == 0) {
    const std::uint32_t begin =
        search.begin + static_cast<std::uint32_t>(segments_.size());
    segments_.push_back({begin, search.end, std::min(bins - 1, search.end - begin)});
    return;
  }
  const std::uint32_t reach = bins * 3 / 8 * kFineWidth;
  const auto last =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(last_, kInfinity - 1)) /
      kFineWidth * kFineWidth;
  const std::uint32_t low = last > reach ? last - reach : 0;
  const std::uint32_t high = std::min(last + reach, kInfinity);
  const std::uint32_t coarse = bins / 8;
  if (low > 0) segments_.push_back({0, low, std::min(coarse, low)});
  segments_.push_back({low, high, (high - low + kFineWidth - 1) / kFineWidth});
  if (high < kInfinity)
    segments_.push_back({high, kInfinity, std::min(coarse, kInfinity - high)});
}

// Where in its segment a magnitude x is, by a product instead of a quotient: x / width is the
// upper half of 2x * factor, with factor = floor(2^63 / width) + 1. That is exact: it is too
// large by at most x / 2^63, and that is less than 1 / width, since both are below 2^31.
class GlobalTopK::Bins {
 public:
  explicit Bins(std::span<const Segment> segments) {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const Segment& segment = segments[s];
      if (s > 0) begin_[s - 1] = segment.begin;
      of_[s] = {(std::uint64_t{1} << 63) / segment.width() + 1, segment.begin, count_};
      count_ += segment.bins;
    }
  }

  std::uint32_t count() const { return count_; }
  /// The bin of a magnitude that is in one of the segments.
  std::uint32_t operator()(std::uint32_t bits) const {
    const First& first =
        of_[static_cast<std::size_t>(bits >= begin_[0]) + (bits >= begin_[1])];
    const std::uint64_t twice = 2 * std::uint64_t{bits - first.begin};
    return first.bin +
           static_cast<std::uint32_t>((static_cast<Product>(twice) * first.factor) >> 64);
  }

 private:
  __extension__ using Product = unsigned __int128;
  struct First {
    std::uint64_t factor;
    std::uint32_t begin;
    std::uint32_t bin;
  };
  std::array<First, 3> of_ = {};
  // Of the second and the third.
  std::array<std::uint32_t, 2> begin_ = {kInfinity, kInfinity};
  std::uint32_t count_ = 0;
};

// Equal sums come in crowds, and an increment has to wait for the last one of the same
// counter: so there are four tables, taken in turn.
void GlobalTopK::count() {
  constexpr std::size_t kTables = 4;
  const Bins bin(segments_);
  const std::size_t bins = bin.count();
  tables_.assign(kTables * bins, 0);
  std::uint32_t* const table = tables_.data();
  const std::span<const float> x = in_search_;
  std::size_t i = 0;
  for (; i + kTables <= x.size(); i += kTables)
    for (std::size_t t = 0; t < kTables; ++t)
      ++table[t * bins + bin(magnitude_bits(x[i + t]))];
  for (; i < x.size(); ++i) ++table[bin(magnitude_bits(x[i]))];
  counts_.assign(tables_.begin(), tables_.begin() + static_cast<std::ptrdiff_t>(bins));
  for (std::size_t t = 1; t < kTables; ++t)
    for (std::size_t b = 0; b < bins; ++b) counts_[b] += table[t * bins + b];
}

void GlobalTopK::add_up(MessageChannel& channel) {
  if (!at_once(channel.size())) return sum_counts(channel, counts_);
  const std::size_t bins = counts_.size();
  const std::vector<std::uint32_t> lengths(at(channel.size()),
                                           static_cast<std::uint32_t>(bins));
  gather_at_once(channel, counts_, lengths, counts_by_rank_);
  std::ranges::fill(counts_, 0U);
  for (std::size_t i = 0; i < counts_by_rank_.size(); ++i)
    counts_[i % bins] += counts_by_rank_[i];
}

// Leaves what the next round has to count.
void GlobalTopK::drop_outside(const Search& search) {
  if (magnitudes_.size() < in_search_.size() + core::kCopySlack)
    magnitudes_.resize(in_search_.size() + core::kCopySlack);
  const std::size_t count = core::copy_between(
      in_search_, search.begin, search.end - search.begin, magnitudes_.data());
  in_search_ = std::span(magnitudes_).first(count);
}

// Goes down from the largest magnitudes until `need` are found. Those above them are kept.
void GlobalTopK::narrow(Search& search) {
  search.bin = counts_.size();
  const auto keep = [&] {
    for (std::size_t rank = 0; rank < kept_by_.size(); ++rank)
      kept_by_[rank] += counts_by_rank_[rank * counts_.size() + search.bin];
  };
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    for (std::uint32_t i = segment->bins; i-- > 0;) {
      search.count = counts_[--search.bin];
      search.begin = std::min(segment->begin + i * segment->width(), segment->end);
      search.end = std::min(search.begin + segment->width(), segment->end);
      if (search.count <= search.need) keep();
      if (search.count >= search.need) return;
      search.need -= search.count;
    }
  }
  // There are not as many as wanted: all that there are.
  search.need = search.count = 0;
}

// How many each rank has of those that are still in the search.
std::vector<std::uint32_t> GlobalTopK::counts_of_each(MessageChannel& channel,
                                                      const Search& search) const {
  const auto mine = static_cast<std::uint32_t>(in_search_.size());
  if (!at_once(channel.size())) return gather_words(channel, std::span(&mine, 1));
  std::vector<std::uint32_t> counts;
  for (std::size_t i = search.bin; i < counts_by_rank_.size(); i += counts_.size())
    counts.push_back(counts_by_rank_[i]);
  return counts;
}

// Every rank sees all that is still in the search, and finds the threshold by itself.
void GlobalTopK::keep_by_values(MessageChannel& channel, const Search& search,
                                Sparse& held) {
  std::vector<std::uint32_t> mine(in_search_.size());
  std::ranges::transform(in_search_, mine.begin(), magnitude_bits);
  const std::vector<std::uint32_t> counts = counts_of_each(channel, search);
  gather_at_once(channel, mine, counts, left_);
  std::vector<std::uint32_t> sorted = left_;
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(search.need - 1);
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  const std::uint32_t threshold = *last;
  std::uint64_t need = search.need;
  std::vector<std::uint32_t> ties(counts.size());
  auto value = left_.begin();
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    for (const auto end = value + counts[rank]; value != end; ++value) {
      ties[rank] += *value == threshold ? 1 : 0;
      kept_by_[rank] += *value > threshold ? 1 : 0;
      need -= *value > threshold ? 1 : 0;
    }
  keep_ties(channel.rank(), threshold, need, ties, held);
}

// Keeps all above `bits`, and `need` of those that equal it, of which each rank has `ties`:
// those of lower ranks first.
void GlobalTopK::keep_ties(int rank, std::uint32_t bits, std::uint64_t need,
                           std::span<const std::uint32_t> ties, Sparse& held) {
  last_ = bits;
  std::uint64_t quota = need + TOPKNOT_PLANT(one_tie_too_many);
  for (std::size_t each = 0; each < ties.size(); ++each) {
    if (each == at(rank)) core::keep_above(held, bits, quota);
    const std::uint64_t kept = std::min<std::uint64_t>(quota, ties[each]);
    if (!kept_by_.empty()) kept_by_[each] += kept;
    quota -= kept;
  }
}

}  // namespace topknot::collective
