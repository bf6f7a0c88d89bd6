// SPDX-License-Identifier: Apache-2.0
//
// The k largest of a few candidates, and how the candidates are found in one sweep.
//
// Choosing works on magnitude_bits(), whose order is that of the magnitudes: a histogram
// over the range of the candidates says in which bin the k-th largest lies, and only that
// bin is looked at more closely. Linear, whatever the values and their order.
//
// The sweep takes as candidates what reaches margin_ * threshold_. Three things can be
// wrong with that floor.
//
//   a little off   margin_ is adjusted, so that the next step has about 1.25 k candidates
//   far too low    (the gradient grew, or this is the first step) when candidates pile
//                  up, the k-th largest so far becomes the floor and the sweep goes on:
//                  what comes later must beat it, since ties go to the lower index
//   too high       fewer than k came through: a histogram of everything gives a floor
//                  that is right, and a second sweep, which only reads, collects from it
//
// At n = 2^25 and 1 % a first step takes 2.9 plain additions r += g by the rising floor
// and 2.7 by fold and histogram; at 0.1 % it is 1.1 against 2.3. After a floor that was
// too high the histogram wins, 2.7 against 3.6, and at every density.
#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "core/front.h"
#include "core/select.h"
#include "core/sweep.h"
#include "topknot/error.h"

namespace topknot::core {

namespace {

constexpr int kBinBits = 11;
constexpr std::size_t kBins = std::size_t{1} << kBinBits;
constexpr std::size_t kFew = 2048;       // no more passes for as few as that,
constexpr std::size_t kMostFew = 16384;  // nor, among very many, for as few as that
constexpr std::size_t kVeryMany = 64;    // times as many as few
constexpr std::size_t kChunk = 1024;     // values that are copied together

/// Where the k largest end: all magnitudes above `bits` are among them, and the first
/// `ties` of those that equal it.
struct Cut {
  std::uint32_t bits;
  std::size_t ties;
};

/// The `count` magnitudes in [lo, lo + 2^width), among which the rank-th largest is
/// looked for.
struct Bin {
  std::uint32_t lo;
  int width;
  std::size_t count;
  std::size_t rank;

  std::uint32_t size() const { return std::uint32_t{1} << width; }
};

[[noreturn]] void refuse(std::size_t found, const Bin& bin) {
  throw ContractError("Of the magnitudes from bit pattern " + std::to_string(bin.lo) +
                      " on, " + std::to_string(bin.count) + " were counted and " +
                      std::to_string(found) + " found, where number " +
                      std::to_string(bin.rank) +
                      " was looked for: they changed meanwhile, or were miscounted.");
}

Bin whole(std::span<const float> value, std::size_t k) {
  // Signed: of these every x86 finds the larger four at a time.
  auto lo = static_cast<std::int32_t>(magnitude_bits(value[0]));
  std::int32_t hi = lo;
  for (const float v : value) {
    const auto bits = static_cast<std::int32_t>(magnitude_bits(v));
    lo = std::min(lo, bits);
    hi = std::max(hi, bits);
  }
  const auto span = static_cast<std::uint32_t>(hi - lo);
  return {static_cast<std::uint32_t>(lo), static_cast<int>(std::bit_width(span)),
          value.size(), k};
}

Bin narrow(std::span<const float> value, const Bin& from) {
  const int shift = std::max(0, from.width - kBinBits);
  // What lies outside is counted too, in a bin of its own: cheaper than a branch. That
  // bin comes after those that are in use, which may be fewer than kBins. Two tables,
  // because an increment has to wait for the last one of the same counter.
  std::array<std::array<std::uint32_t, kBins + 1>, 2> tables = {};
  const auto bin_of = [lo = from.lo, outside = from.size(), shift](float v) {
    return std::min(magnitude_bits(v) - lo, outside) >> shift;
  };
  std::size_t i = 0;
  for (; i + 2 <= value.size(); i += 2) {
    ++tables[0][bin_of(value[i])];
    ++tables[1][bin_of(value[i + 1])];
  }
  if (i < value.size()) ++tables[0][bin_of(value[i])];

  const auto count = [&](std::uint32_t b) { return tables[0][b] + tables[1][b]; };
  std::uint32_t b = from.size() >> shift;
  const std::size_t inside = value.size() - count(b--);
  if (inside != from.count) refuse(inside, from);
  std::size_t rank = from.rank;
  while (rank > count(b)) rank -= count(b--);
  return {from.lo + (b << shift), shift, count(b), rank};
}

// A chunk more than there should be, in case they were miscounted.
using Few = std::array<float, kMostFew + kChunk + kCopySlack>;

void copy_bin(std::span<const float> value, const Bin& bin, Few& few) {
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < value.size(); begin += kChunk) {
    const auto chunk = value.subspan(begin, std::min(kChunk, value.size() - begin));
    count += copy_between(chunk, bin.lo, bin.size(), few.data() + count);
    if (count > bin.count) refuse(count, bin);
  }
  if (count != bin.count) refuse(count, bin);
}

// At most three passes narrow 31 bits to one magnitude.
Cut find_cut(std::span<const float> value, std::size_t k) {
  if (k == 0 || k > value.size())
    throw ContractError("The k largest of " + std::to_string(value.size()) +
                        " candidates were asked for with k = " + std::to_string(k) + ".");
  Bin bin = whole(value, k);
  const std::size_t few_enough = std::clamp(value.size() / kVeryMany, kFew, kMostFew);
  while (bin.count > few_enough && bin.width > 0) bin = narrow(value, bin);
  if (bin.width == 0) return {bin.lo, bin.rank};

  Few few;
  copy_bin(value, bin, few);
  const auto nth = few.begin() + static_cast<std::ptrdiff_t>(bin.rank - 1);
  const auto larger = [](float a, float b) {
    return magnitude_bits(a) > magnitude_bits(b);
  };
  std::nth_element(few.begin(), nth, few.begin() + static_cast<std::ptrdiff_t>(bin.count),
                   larger);
  const auto above =
      std::count_if(few.begin(), nth, [&](float each) { return larger(each, *nth); });
  return {magnitude_bits(*nth), bin.rank - static_cast<std::size_t>(above)};
}

// keep_largest() for 0 < k <= size; returns the magnitude_bits() of the smallest kept.
std::uint32_t keep(Sparse& pairs, std::size_t k) {
  const Cut cut = find_cut(pairs.value, k);
  const std::size_t before = pairs.size();
  keep_above(pairs, cut.bits, cut.ties);
  if (pairs.size() != k)
    throw ContractError("Of " + std::to_string(before) + " pairs the " +
                        std::to_string(k) + " largest were to be kept, and " +
                        std::to_string(pairs.size()) + " were.");
  return cut.bits;
}

// Folds, and replaces `out` with candidates: the k largest of all that reach `floor` are
// among them. `seen` is how many reached it or the floors that followed.
bool collect(std::span<float> residual, std::span<float> grad, std::size_t k,
             std::uint32_t floor, Sparse& out, std::size_t& seen) {
  const std::size_t most = std::max(4 * k, k + 65536);
  out.clear();
  seen = 0;
  const bool finite =
      sweep(residual, grad, floor, [&](const BlockHits& hits, std::uint32_t current) {
        out.append(hits.view());
        seen += hits.count;
        return out.size() <= most ? current : keep(out, k) + 1;
      });
  if (!finite) out.clear();
  return finite;
}

// A floor that at least k coordinates of `residual` reach, and not many more.
std::uint32_t sure_floor(std::span<const float> residual, std::size_t k) {
  Histogram bins = {};
  add_to_histogram(residual, bins);
  std::size_t bin = kHistogramBins;
  for (std::size_t reached = 0; reached < k;) reached += bins[--bin];
  return magnitude_bits(histogram_bin_floor(bin));
}

}  // namespace

void keep_largest(Sparse& pairs, std::size_t k) {
  if (pairs.size() <= k) return;
  if (k == 0) {
    pairs.clear();
  } else {
    keep(pairs, k);
  }
}

bool ExactTopK::select(std::span<float> residual, std::span<float> grad, std::size_t k,
                       Sparse& out) {
  out.clear();
  k = std::min(k, residual.size());
  if (k == 0) return fold(residual, grad);

  const float last = threshold_;
  const float floor = k < residual.size() ? margin_ * last : 0.0F;
  std::size_t seen = 0;
  if (!collect(residual, grad, k, floor_of(floor), out, seen)) return false;
  const bool missed = seen < k;
  if (missed)
    collect(residual, {}, k, sure_floor(residual, k), out, seen);  // all finite by now
  threshold_ = std::bit_cast<float>(keep(out, k));

  if (floor > 0 && threshold_ > 0) {
    // How far, relative to the threshold, the floor should lie below it.
    float slack = 0;
    if (missed) {
      slack = std::max(2 * (1 - margin_), 1.5F * (1 - threshold_ / last));
    } else {
      const float spare = static_cast<float>(k) / 4 + 256;
      const float extra = static_cast<float>(seen - k + 1);
      slack = (1 - floor / threshold_) * std::clamp(spare / extra, 0.5F, 2.0F);
    }
    margin_ = 1 - std::clamp(slack, 0.001F, 0.5F);
  }
  return true;
}

}  // namespace topknot::core
