// SPDX-License-Identifier: Apache-2.0
//
// How positions travel. They are relative to the region and strictly increase, so what
// counts is the gaps: how many positions lie unused before each. Gaps are taken in blocks
// of 128 (the last may be shorter), and each block has a parameter of its own, because
// density changes from layer to layer of a model.
//
//   plain    | position u32, count times
//
//   delta    | width u8 of each block | gaps of each block, `width` bits each
//            A block's width is that of its largest gap. A full block is 16 * width
//            bytes; the last ends with its byte.
//
//   rice     | length of the ones u32 | parameter u8 of each block
//            | remainders of each block, `parameter` bits each | ones
//            A gap g is cut into g >> parameter and the low bits, the remainder, which
//            are packed as in delta. The high part q is q zeros and a one in a stream of
//            bits of its own. The parameter is floor(log2(mean gap of the block)).
//
//   bitmap   | one bit for each position of the region
//
//   dense    | nothing: every position of the region is there
//
// Bits fill bytes from the lowest up. Bits left over at the end are zero.
//
// Why rice, and not Elias-Fano: both have the same two streams and the same bound,
//
//   count * (parameter + 1) + unused positions / 2^parameter   bits,
//
// but Elias-Fano cuts positions where Rice cuts gaps. Its high parts add up to the last
// position >> parameter; those of the gaps to less, for every gap rounds down by itself.
// At 1 % of random positions Elias-Fano takes 8.56 bits per position, Rice 8.11 (and the
// blocks' parameters 0.06), and the entropy is 8.08. What Elias-Fano is loved for,
// finding the i-th position without reading the others, no receiver asks for. In two
// streams Rice is as fast to read: the remainders are at known places, and the ones are
// found by counting zeros from word to word.
#include <algorithm>
#include <array>

#include "core/wire/parts.h"

namespace topknot::core::wire {
namespace {

using Gaps = std::array<std::uint32_t, kBlock>;

// The gaps of the block that begins at pair `first`; returns how many there are.
// Positions are 32 bits and so are these differences, whatever wraps on the way.
std::size_t gaps_of_block(std::span<const std::uint32_t> index, std::uint32_t begin,
                          std::size_t first, Gaps& gap) {
  const std::size_t m = std::min(kBlock, index.size() - first);
  const std::uint32_t* at = index.data() + first;
  gap[0] = at[0] - (first == 0 ? begin : at[-1] + 1);
  for (std::size_t i = 1; i < m; ++i) gap[i] = at[i] - at[i - 1] - 1;
  return m;
}

std::uint32_t sum_of(const Gaps& gap, std::size_t m) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < m; ++i) sum += gap[i];
  return sum;
}

unsigned width_of(const Gaps& gap, std::size_t m) {
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < m; ++i) any |= gap[i];
  return static_cast<unsigned>(std::bit_width(any));
}

struct GapSizes {
  std::uint64_t delta = 0;       // bytes of packed gaps
  std::uint64_t remainders = 0;  // bytes
  std::uint64_t ones = 0;        // bits
};

GapSizes measure_gaps(std::span<const std::uint32_t> index, std::uint32_t begin) {
  GapSizes sizes;
  Gaps gap;
  for (std::size_t first = 0; first < index.size(); first += kBlock) {
    const std::size_t m = gaps_of_block(index, begin, first, gap);
    const unsigned parameter = rice_parameter(sum_of(gap, m), m);
    std::uint32_t high = 0;
    for (std::size_t i = 0; i < m; ++i) high += gap[i] >> parameter;
    sizes.delta += bytes_of(m * width_of(gap, m));
    sizes.remainders += bytes_of(m * parameter);
    sizes.ones += m + high;
  }
  return sizes;
}

// Packs numbers of `width` bits, at most 63, one behind the other; returns the end.
template <typename Number>
std::byte* pack(std::span<const Number> number, unsigned width, std::byte* out) {
  std::uint64_t word = 0;
  unsigned used = 0;
  for (const std::uint64_t x : number) {
    word |= x << used;
    used += width;
    if (used >= 64) {
      store(out, word);
      out += 8;
      used -= 64;
      word = x >> (width - used);
    }
  }
  std::memcpy(out, &word, bytes_of(used));
  return out + bytes_of(used);
}

// Packs the low `width` bits of m numbers; returns the end. Where a whole block has few bits
// each, numbers first join by twos, fours and eights, in loops of which the compiler makes
// vectors.
std::byte* pack_low(const Gaps& gap, std::size_t m, unsigned width, std::byte* out) {
  const auto mask = static_cast<std::uint32_t>(mask_of(width));
  Gaps low;
  for (std::size_t i = 0; i < m; ++i) low[i] = gap[i] & mask;
  if (m < kBlock || width > 7)
    return pack<std::uint32_t>(std::span(low).first(m), width, out);
  std::array<std::uint32_t, kBlock / 2> two;
  std::array<std::uint32_t, kBlock / 4> four;
  std::array<std::uint64_t, kBlock / 8> eight;
  for (std::size_t i = 0; i < two.size(); ++i)
    two[i] = low[2 * i] | low[2 * i + 1] << width;
  for (std::size_t i = 0; i < four.size(); ++i)
    four[i] = two[2 * i] | two[2 * i + 1] << (2 * width);
  for (std::size_t i = 0; i < eight.size(); ++i)
    eight[i] = four[2 * i] | std::uint64_t{four[2 * i + 1]} << (4 * width);
  return pack<std::uint64_t>(eight, 8 * width, out);
}

// Sets single bits, in increasing order, in a stream of zeros.
class OnesWriter {
 public:
  explicit OnesWriter(std::byte* out) : out_(out) {}

  void put(std::uint64_t position) {
    while (position - base_ >= 64) {
      store(out_, word_);
      out_ += 8;
      base_ += 64;
      word_ = 0;
    }
    word_ |= std::uint64_t{1} << (position - base_);
  }

  // Fills up to `end`, which is behind the last one.
  void finish(const std::byte* end) {
    const auto rest = static_cast<std::size_t>(end - out_);
    const std::size_t word = std::min<std::size_t>(rest, 8);
    std::memcpy(out_, &word_, word);
    std::memset(out_ + word, 0, rest - word);
  }

 private:
  std::byte* out_;
  std::uint64_t base_ = 0;
  std::uint64_t word_ = 0;
};

void write_plain(std::span<const std::uint32_t> index, std::uint32_t begin,
                 std::byte* out) {
  for (std::size_t i = 0; i < index.size(); ++i) store(out + 4 * i, index[i] - begin);
}

void write_delta(std::span<const std::uint32_t> index, std::uint32_t begin,
                 std::byte* out) {
  std::byte* widths = out;
  std::byte* packed = out + blocks_of(index.size());
  Gaps gap;
  for (std::size_t first = 0; first < index.size(); first += kBlock) {
    const std::size_t m = gaps_of_block(index, begin, first, gap);
    const unsigned width = width_of(gap, m);
    *widths++ = static_cast<std::byte>(width);
    packed = pack_low(gap, m, width, packed);
  }
}

void write_rice(const IndexPlan& plan, std::span<const std::uint32_t> index,
                std::uint32_t begin, std::byte* out) {
  const std::byte* end = out + plan.bytes;
  std::byte* parameters = out + 4;
  std::byte* remainders = parameters + blocks_of(index.size());
  std::byte* stream = remainders + plan.remainder_bytes;
  store(out, static_cast<std::uint32_t>(end - stream));
  OnesWriter ones(stream);
  std::uint64_t at = 0;
  Gaps gap;
  for (std::size_t first = 0; first < index.size(); first += kBlock) {
    const std::size_t m = gaps_of_block(index, begin, first, gap);
    const unsigned parameter = rice_parameter(sum_of(gap, m), m);
    *parameters++ = static_cast<std::byte>(parameter);
    remainders = pack_low(gap, m, parameter, remainders);
    for (std::size_t i = 0; i < m; ++i) {
      at += gap[i] >> parameter;
      ones.put(at++);
    }
  }
  ones.finish(end);
}

void write_bitmap(std::span<const std::uint32_t> index, std::uint32_t begin,
                  std::byte* out, const std::byte* end) {
  OnesWriter ones(out);
  for (const std::uint32_t position : index) ones.put(position - begin);
  ones.finish(end);
}

// A block's parameter p makes m * (p + 1) + sum / 2^p smallest. That minimum is a concave
// function of the block's mean gap, a minimum of straight lines, so blocks that differ
// take no more bits than blocks that all have the mean gap of the whole.
std::uint64_t rice_bound(std::uint64_t most, std::uint64_t size) {
  std::uint64_t bits = ~std::uint64_t{0};
  for (unsigned parameter = 0; parameter < 32; ++parameter) {
    bits = std::min(bits, most * (parameter + 1) + ((size - most) >> parameter));
  }
  return 4 + blocks_of(most) + bytes_of(bits) + 1;  // both streams end with their byte
}

}  // namespace

IndexPlan plan_index(Coding wanted, std::span<const std::uint32_t> index, Region region) {
  const std::uint64_t count = index.size();
  const bool whole = count == region.size();
  if (wanted == Coding::dense || (wanted == Coding::automatic && whole)) {
    wanted = whole ? Coding::dense : Coding::bitmap;
  }
  if (count == 0) return {wanted == Coding::automatic ? Coding::plain : wanted, 0, 0};
  if (wanted == Coding::dense) return {Coding::dense, 0, 0};

  GapSizes gaps;
  if (wanted != Coding::plain && wanted != Coding::bitmap) {
    gaps = measure_gaps(index, static_cast<std::uint32_t>(region.begin));
  }
  const std::uint64_t blocks = blocks_of(count);
  const std::array<IndexPlan, 4> plans = {{
      {Coding::plain, 4 * count, 0},
      {Coding::bitmap, bytes_of(region.size()), 0},
      {Coding::delta, blocks + gaps.delta, 0},
      {Coding::rice, 4 + blocks + gaps.remainders + bytes_of(gaps.ones), gaps.remainders},
  }};
  if (wanted == Coding::automatic) {
    return *std::ranges::min_element(plans, {}, &IndexPlan::bytes);
  }
  return *std::ranges::find(plans, wanted, &IndexPlan::coding);
}

void write_index(const IndexPlan& plan, std::span<const std::uint32_t> index,
                 Region region, std::byte* out) {
  if (index.empty()) return;
  const auto begin = static_cast<std::uint32_t>(region.begin);
  switch (plan.coding) {
    case Coding::plain:
      return write_plain(index, begin, out);
    case Coding::delta:
      return write_delta(index, begin, out);
    case Coding::rice:
      return write_rice(plan, index, begin, out);
    case Coding::bitmap:
      return write_bitmap(index, begin, out, out + plan.bytes);
    case Coding::dense:
    case Coding::automatic:
      return;
  }
}

// What fewer pairs take is never more: each bound grows with `most`.
std::uint64_t index_bound(Coding coding, std::uint64_t most, std::uint64_t size) {
  if (most == 0) return 0;
  switch (coding) {
    case Coding::plain:
      return 4 * most;
    case Coding::delta:
      return blocks_of(most) + bytes_of(most * std::bit_width(size - 1));
    case Coding::rice:
      return rice_bound(most, size);
    case Coding::bitmap:
    case Coding::dense:
      return bytes_of(size);
    case Coding::automatic:
      break;
  }
  std::uint64_t bound = bytes_of(size);
  for (const Coding each : {Coding::plain, Coding::delta, Coding::rice}) {
    bound = std::min(bound, index_bound(each, most, size));
  }
  return bound;
}

}  // namespace topknot::core::wire
