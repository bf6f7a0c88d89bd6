// SPDX-License-Identifier: Apache-2.0
//
// The decoder of positions: see index_write.cc for the layouts. It believes nothing
// but the message's length. Every load is inside the message; positions are counted in 64
// bits, where what a block can add is bounded before it is added up, so that nothing
// wraps into range; and gaps cannot but lead upwards, so that the last position speaks
// for all.
#include <algorithm>
#include <array>
#include <numeric>

#include "core/plant.h"
#include "core/wire/parts.h"

namespace topknot::core::wire {
namespace {

// Numbers of up to 32 bits anywhere in a message of at least 8 bytes. A load never starts
// later than 8 bytes before the message's end; the shift makes up for that. A number of
// no bits may lie at the very end, where the shift would be the whole word; taken as none,
// the mask leaves nothing of it.
class Bits {
 public:
  explicit Bits(std::span<const std::byte> message)
      : data_(message.data()), last_(message.size() - 8) {}

  std::uint32_t at(std::uint64_t bit, std::uint64_t mask) const {
    return static_cast<std::uint32_t>(from(bit) & mask);
  }

  // Fills `number` with numbers of `width` bits each, the first of which is at `bit`.
  void unpack(std::uint64_t bit, unsigned width, std::span<std::uint32_t> number) const {
    const std::uint64_t mask = mask_of(width);
    std::size_t i = 0;
    if (width <= 7 && bit % 8 == 0) {  // then eight of them are in one load
      for (; i + 8 <= number.size(); i += 8, bit += 8 * width) {
        const std::uint64_t eight = from(bit);
        for (unsigned j = 0; j < 8; ++j)
          number[i + j] = static_cast<std::uint32_t>((eight >> (j * width)) & mask);
      }
    }
    for (; i < number.size(); ++i, bit += width) number[i] = at(bit, mask);
  }

 private:
  std::uint64_t from(std::uint64_t bit) const {
    const std::uint64_t byte = std::min(bit / 8, last_);
    return load<std::uint64_t>(data_ + byte) >> ((bit - 8 * byte) & 63);
  }

  const std::byte* data_;
  std::uint64_t last_;
};

constexpr std::uint64_t kNoMore = ~std::uint64_t{0};

// Finds the ones of a stream of bits in increasing order.
class OnesReader {
 public:
  OnesReader(const std::byte* in, std::uint64_t bytes) : in_(in), left_(bytes) {}

  // Where the next one is, or kNoMore.
  std::uint64_t next() {
    while (word_ == 0) {
      if (left_ == 0) return kNoMore;
      refill();
    }
    const std::uint64_t position = base_ + static_cast<unsigned>(std::countr_zero(word_));
    word_ &= word_ - 1;
    return position;
  }

  // Where the next `where.size()` ones are, or as many as there are; returns how many.
  std::size_t take(std::span<std::uint64_t> where) {
    std::size_t n = 0;
    while (n < where.size()) {
      while (word_ == 0) {
        if (left_ == 0) return n;
        refill();
      }
      const std::size_t end =
          std::min(where.size(), n + static_cast<std::size_t>(std::popcount(word_)));
      for (; n < end; ++n) {
        where[n] = base_ + static_cast<unsigned>(std::countr_zero(word_));
        word_ &= word_ - 1;
      }
    }
    return n;
  }

 private:
  void refill() {
    base_ += 64;
    if (left_ >= 8) {
      word_ = load<std::uint64_t>(in_);
      in_ += 8;
      left_ -= 8;
    } else {
      std::memcpy(&word_, in_, left_);
      left_ = 0;
    }
  }

  const std::byte* in_;
  std::uint64_t left_;
  std::uint64_t base_ = std::uint64_t{0} - 64;
  std::uint64_t word_ = 0;
};

// The bytes that `count` numbers take when each block has its own width. `most` is the
// largest width that can be.
std::optional<Fault> packed_length(const std::byte* widths, std::uint64_t count,
                                   std::uint64_t most, std::uint64_t& bytes) {
  bytes = 0;
  for (std::uint64_t first = 0; first < count; first += kBlock) {
    const auto width = std::to_integer<std::uint64_t>(*widths++);
    if (width > most) return garbled("width", width, most);
    bytes += bytes_of(std::min<std::uint64_t>(kBlock, count - first) * width);
  }
  return std::nullopt;
}

// That the bits from `bit` to the end of its byte are zero.
std::optional<Fault> check_padding(const std::byte* data, std::uint64_t bit) {
  if (bit % 8 == 0) return std::nullopt;
  const auto spare = std::to_integer<std::uint64_t>(data[bit / 8]) >> (bit % 8);
  if (spare != 0 && !TOPKNOT_PLANT(padding_unchecked))
    return garbled("padding", spare, 0);
  return std::nullopt;
}

// That the position before `end` is still in the region.
std::optional<Fault> check_last(std::uint64_t end, std::uint64_t size) {
  if (end > size && !TOPKNOT_PLANT(last_position_unchecked))
    return garbled("index", end - 1, size - 1);
  return std::nullopt;
}

std::optional<Fault> read_plain(const std::byte* in, Region region,
                                std::span<std::uint32_t> index) {
  const auto begin = static_cast<std::uint32_t>(region.begin);
  bool rising = true;
  std::uint32_t previous = load<std::uint32_t>(in);
  index[0] = begin + previous;
  for (std::size_t i = 1; i < index.size(); ++i) {
    const auto position = load<std::uint32_t>(in + 4 * i);
    rising &= position > load<std::uint32_t>(in + 4 * i - 4);
    index[i] = begin + position;
  }
  for (std::size_t i = 1; !rising && i < index.size(); ++i) {
    const auto position = load<std::uint32_t>(in + 4 * i);
    const std::uint64_t least = previous + std::uint64_t{1};
    if (position < least && !TOPKNOT_PLANT(positions_may_fall))
      return garbled("index", position, least);
    previous = position;
  }
  const auto last = load<std::uint32_t>(in + 4 * (index.size() - 1));
  return check_last(last + std::uint64_t{1}, region.size());
}

std::optional<Fault> read_delta(std::span<const std::byte> message, Region region,
                                std::span<std::uint32_t> index) {
  const std::byte* widths = message.data() + kHeaderBytes;
  const Bits bits(message);
  std::uint64_t bit = 8 * (kHeaderBytes + blocks_of(index.size()));
  std::uint64_t next = 0;  // the first position that can still come, in the region
  for (std::size_t first = 0; first < index.size(); first += kBlock) {
    const std::size_t end = std::min(first + kBlock, index.size());
    const auto width = std::to_integer<unsigned>(*widths++);
    const std::uint64_t mask = mask_of(width);
    std::uint32_t any = 0;
    for (std::size_t i = first; i < end; ++i, bit += width) {
      const std::uint32_t gap = bits.at(bit, mask);
      any |= gap;
      next += gap;
      index[i] = static_cast<std::uint32_t>(region.begin + next);
      ++next;
    }
    const auto needed = static_cast<unsigned>(std::bit_width(any));
    if (needed != width) return garbled("width", width, needed);
  }
  if (auto fault = check_padding(message.data(), bit)) return fault;
  return check_last(next, region.size());
}

// How far the reading of gaps has come.
struct Cursor {
  std::uint64_t bit;        // of the remainders, in the message
  std::uint64_t after = 0;  // the bit behind the last one, in the stream of ones
  std::uint64_t next = 0;   // the first position that can still come, in the region
};

std::optional<Fault> read_rice_block(const Bits& bits, OnesReader& ones,
                                     unsigned parameter, Region region, Cursor& at,
                                     std::span<std::uint32_t> block) {
  const std::uint64_t m = block.size();
  std::array<std::uint64_t, kBlock> one;
  const std::size_t found = ones.take(std::span(one).first(m));
  if (found < m) {
    const std::uint64_t after = found > 0 ? one[found - 1] + 1 : at.after;
    return garbled("ones", after, after + 1);
  }
  // The high parts of the gaps up to a position add up to the zeros before its one.
  bits.unpack(at.bit, parameter, block);
  Cursor now{at.bit + m * parameter, one[m - 1] + 1, at.next};
  for (std::size_t i = 0; i < m; ++i) {
    now.next += block[i];
    const std::uint64_t high = (one[i] - at.after - i) << parameter;
    block[i] = static_cast<std::uint32_t>(region.begin + now.next + high + i);
  }
  now.next += ((now.after - at.after - m) << parameter) + m;
  // With the right parameter the zeros are fewer than 2 m; within that nothing wraps.
  const std::uint64_t stretch = now.after - at.after;
  if (stretch >= 3 * m) return garbled("ones", stretch, 3 * m);
  const unsigned right = rice_parameter(now.next - at.next - m, m);
  if (parameter != right) return garbled("parameter", parameter, right);
  at = now;
  return check_last(at.next, region.size());
}

std::optional<Fault> read_rice(std::span<const std::byte> message, const std::byte* end,
                               Region region, std::span<std::uint32_t> index) {
  const std::byte* parameters = message.data() + kHeaderBytes + 4;
  const std::byte* remainders = parameters + blocks_of(index.size());
  const auto ones_bytes = load<std::uint32_t>(message.data() + kHeaderBytes);
  OnesReader ones(end - ones_bytes, ones_bytes);
  const Bits bits(message);
  Cursor at{8 * static_cast<std::uint64_t>(remainders - message.data())};
  for (std::size_t first = 0; first < index.size(); first += kBlock) {
    const auto parameter = std::to_integer<unsigned>(*parameters++);
    const auto block = index.subspan(first, std::min(kBlock, index.size() - first));
    if (auto fault = read_rice_block(bits, ones, parameter, region, at, block)) {
      return fault;
    }
  }
  const std::uint64_t used = bytes_of(at.after);
  if (used != ones_bytes) return garbled("padding", ones_bytes, used);
  if (ones.next() != kNoMore) return garbled("padding", 1, 0);
  return check_padding(message.data(), at.bit);
}

std::optional<Fault> read_bitmap(const std::byte* in, Region region,
                                 std::span<std::uint32_t> index) {
  OnesReader ones(in, bytes_of(region.size()));
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    position = ones.next();
    if (position == kNoMore) return garbled("ones", i, index.size());
    index[i] = static_cast<std::uint32_t>(region.begin + position);
  }
  if (ones.next() != kNoMore) return garbled("ones", index.size() + 1, index.size());
  return check_last(position + 1, region.size());
}

}  // namespace

std::optional<Fault> expected_length(std::span<const std::byte> message, Coding coding,
                                     Values values, std::uint64_t count,
                                     std::uint64_t size, std::uint64_t& length) {
  length = kHeaderBytes + value_bytes(values, count);
  if (count == 0) return std::nullopt;
  const std::byte* payload = message.data() + kHeaderBytes;
  const bool rice = coding == Coding::rice;
  std::uint64_t packed = 0;
  switch (coding) {
    case Coding::plain:
      length += 4 * count;
      break;
    case Coding::delta:
    case Coding::rice:
      length += (rice ? 4 : 0) + blocks_of(count);
      if (message.size() < length) return garbled("length", message.size(), length);
      if (auto fault = packed_length(payload + (rice ? 4 : 0), count,
                                     rice ? kMostParameter : 32, packed)) {
        return fault;
      }
      length += packed + (rice ? load<std::uint32_t>(payload) : 0);
      break;
    case Coding::bitmap:
      length += bytes_of(size);
      break;
    case Coding::dense:
    case Coding::automatic:
      break;
  }
  return std::nullopt;
}

std::optional<Fault> read_index(std::span<const std::byte> message, const std::byte* end,
                                Coding coding, Region region,
                                std::span<std::uint32_t> index) {
  if (index.empty()) return std::nullopt;
  const std::byte* payload = message.data() + kHeaderBytes;
  switch (coding) {
    case Coding::plain:
      return read_plain(payload, region, index);
    case Coding::delta:
      return read_delta(message, region, index);
    case Coding::rice:
      return read_rice(message, end, region, index);
    case Coding::bitmap:
      return read_bitmap(payload, region, index);
    case Coding::dense:
    case Coding::automatic:
      break;
  }
  std::iota(index.begin(), index.end(), static_cast<std::uint32_t>(region.begin));
  return std::nullopt;
}

}  // namespace topknot::core::wire
