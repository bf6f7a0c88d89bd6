// SPDX-License-Identifier: Apache-2.0
//
// Messages, for the tests of core/wire: makers of them, and a slow reader that takes a
// message apart bit by bit as wire.h, index_write.cc and values.cc draw it. It
// shares no code with the decoder and says only what a message holds, or that it is none.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/wire/wire.h"

namespace topknot::core {

using Message = std::vector<std::byte>;

inline constexpr Coding kAllCodings[] = {Coding::plain, Coding::delta,
                                         Coding::rice,  Coding::bitmap,
                                         Coding::dense, Coding::automatic};
inline constexpr Values kAllValues[] = {Values::f32, Values::bf16, Values::i8,
                                        Values::i2};
inline constexpr Stamp kStamp = {3, 77, 0x1122334455667788, 5, 6};

/// Encodes without an error to hand back.
inline Message message_of(SparseView pairs, Region region, Format format,
                          bool nonfinite = false) {
  Message message;
  encode(kStamp, pairs, region, format, nonfinite, message, {});
  return message;
}

/// `count` distinct positions of `region`, the last of it among them, with values that
/// are the numbers -1000 .. 1000 or, if not `whole`, anything of that size.
inline Sparse random_pairs(Region region, std::uint64_t count, std::uint64_t seed,
                           bool whole = false) {
  Random random(seed);
  std::set<std::uint64_t> positions;
  if (2 * count > region.size()) {  // then choose what is left out
    for (std::uint64_t p = region.begin; p < region.end; ++p) positions.insert(p);
    while (positions.size() > count) {
      positions.erase(region.begin + random.below(region.size() - 1));
    }
  } else if (count > 0) {
    positions.insert(region.end - 1);
    while (positions.size() < count) {
      positions.insert(region.begin + random.below(region.size()));
    }
  }
  Sparse pairs;
  for (const std::uint64_t position : positions) {
    const float number = static_cast<float>(random.below(2001)) - 1000;
    pairs.push_back(static_cast<std::uint32_t>(position),
                    whole ? number : number + random.laplace());
  }
  return pairs;
}

// ---- the slow reader

class SlowReader {
 public:
  SlowReader(std::span<const std::byte> message, Region region, std::uint64_t most)
      : message_(message), region_(region), most_(most) {}

  /// The pairs of a message of kStamp, or nothing where the decoder must find a fault.
  std::optional<Sparse> read() {
    if (message_.size() < 32 || !header()) return std::nullopt;
    if (count_ > most_ || count_ > region_.size()) return std::nullopt;
    if (coding_ == 4 && count_ != region_.size()) return std::nullopt;
    if (count_ > 0 && !(positions() && values())) return std::nullopt;
    if (bit_ != 8 * message_.size()) return std::nullopt;
    Sparse pairs;
    for (std::size_t i = 0; i < position_.size(); ++i) {
      if (position_[i] >= region_.size()) return std::nullopt;
      if (i > 0 && position_[i] <= position_[i - 1]) return std::nullopt;
      pairs.push_back(static_cast<std::uint32_t>(region_.begin + position_[i]),
                      value_[i]);
    }
    return pairs;
  }

 private:
  bool left(std::uint64_t bits) const { return bits <= 8 * message_.size() - bit_; }

  std::uint64_t take(unsigned bits) {
    std::uint64_t x = 0;
    for (unsigned i = 0; i < bits; ++i, ++bit_) {
      const auto byte = std::to_integer<unsigned>(message_[bit_ / 8]);
      x |= static_cast<std::uint64_t>((byte >> (bit_ % 8)) & 1) << i;
    }
    return x;
  }

  bool skip_to_byte() {
    while (bit_ % 8 != 0) {
      if (take(1) != 0) return false;
    }
    return true;
  }

  bool header() {
    if (take(32) != 0x544E4B54 || take(8) != 2) return false;
    format_ = take(8);
    const bool phase = take(8) == kStamp.phase;
    coding_ = take(4);
    const std::uint64_t flags = take(4);
    take(32);  // the checksum, which is not the decoder's
    const bool step = take(32) == kStamp.step;
    const bool fingerprint = take(64) == kStamp.fingerprint;
    const bool from = take(16) == kStamp.from;
    const bool to = take(16) == kStamp.to;
    count_ = take(32);
    return format_ <= 3 && coding_ <= 4 && flags <= 1 && phase && step && fingerprint &&
           from && to;
  }

  bool positions() {
    switch (coding_) {
      case 0:
        return plain();
      case 1:
        return gaps(false);
      case 2:
        return gaps(true);
      case 3:
        return bitmap();
      default:
        if (!left(2 * count_)) return false;  // not even of the shortest values
        for (std::uint64_t p = 0; p < count_; ++p) position_.push_back(p);
        return true;
    }
  }

  bool plain() {
    if (!left(32 * count_)) return false;
    for (std::uint64_t i = 0; i < count_; ++i) position_.push_back(take(32));
    return true;
  }

  bool bitmap() {
    if (!left((region_.size() + 7) / 8 * 8)) return false;
    for (std::uint64_t p = 0; p < region_.size(); ++p) {
      if (take(1) == 1) position_.push_back(p);
    }
    return skip_to_byte() && position_.size() == count_;
  }

  bool gaps(bool rice) {
    const std::uint64_t blocks = (count_ + 127) / 128;
    if (!left((rice ? 32 : 0) + 8 * blocks)) return false;
    const std::uint64_t ones_bytes = rice ? take(32) : 0;
    std::vector<unsigned> width;
    for (std::uint64_t b = 0; b < blocks; ++b) width.push_back(unsigned(take(8)));
    std::vector<std::uint64_t> gap;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::uint64_t m = std::min<std::uint64_t>(128, count_ - 128 * b);
      if (width[b] > (rice ? 31 : 32) || !left((m * width[b] + 7) / 8 * 8)) return false;
      for (std::uint64_t i = 0; i < m; ++i) gap.push_back(take(width[b]));
      if (!skip_to_byte()) return false;
    }
    if (rice && !high_parts(ones_bytes, width, gap)) return false;
    std::uint64_t next = 0;
    for (const std::uint64_t g : gap) {
      position_.push_back(next + g);
      next += g + 1;
      if (next > region_.size()) return false;
    }
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const auto first = gap.begin() + static_cast<std::ptrdiff_t>(128 * b);
      const auto m = std::min<std::ptrdiff_t>(128, gap.end() - first);
      if (width[b] != (rice ? parameter(first, m) : width_of(first, m))) return false;
    }
    return true;
  }

  bool high_parts(std::uint64_t bytes, const std::vector<unsigned>& width,
                  std::vector<std::uint64_t>& gap) {
    if (!left(8 * bytes)) return false;
    const std::uint64_t end = bit_ + 8 * bytes;
    for (std::size_t i = 0; i < gap.size(); ++i) {
      std::uint64_t zeros = 0;
      bool one = false;
      while (bit_ < end && !one) {
        one = take(1) == 1;
        if (!one) ++zeros;
      }
      if (!one || zeros > region_.size()) return false;
      gap[i] += zeros << width[i / 128];
    }
    return skip_to_byte() && bit_ == end;
  }

  using Gap = std::vector<std::uint64_t>::const_iterator;

  static unsigned width_of(Gap gap, std::ptrdiff_t m) {
    unsigned width = 0;
    while (std::any_of(gap, gap + m, [&](std::uint64_t g) { return g >> width != 0; })) {
      ++width;
    }
    return width;
  }

  static unsigned parameter(Gap gap, std::ptrdiff_t m) {
    std::uint64_t sum = 0;
    for (std::ptrdiff_t i = 0; i < m; ++i) sum += gap[i];
    unsigned p = 0;
    while (static_cast<std::uint64_t>(m) << (p + 1) <= sum) ++p;
    return p;
  }

  bool values() {
    constexpr unsigned kWidths[] = {32, 16, 8, 2};
    const unsigned width = kWidths[format_];
    const bool scaled = width <= 8;
    if (!left((count_ * width + 7) / 8 * 8 + (scaled ? 8 : 0))) return false;
    int exponent = scaled ? static_cast<int>(take(8)) : 0;
    if (exponent >= 128) exponent -= 256;
    if (exponent < -127 || exponent > (width == 8 ? 121 : 126)) return false;
    for (std::uint64_t i = 0; i < count_; ++i) {
      const std::uint64_t x = take(width);
      if (exponent == -127 && x != 0) return false;
      if (width == 8 && x == 0x80) return false;
      value_.push_back(exponent == -127 ? 0 : number(x, exponent));
    }
    return skip_to_byte();
  }

  float number(std::uint64_t x, int exponent) const {
    constexpr int kLevels[] = {1, 3, -1, -3};
    const auto bits = static_cast<std::uint32_t>(x);
    if (format_ == 0) return std::bit_cast<float>(bits);
    if (format_ == 1) return std::bit_cast<float>(bits << 16);
    const int step =
        format_ == 3 ? kLevels[x] : static_cast<int>(x) - (x > 127 ? 256 : 0);
    return std::ldexp(static_cast<float>(step), exponent);
  }

  std::span<const std::byte> message_;
  Region region_;
  std::uint64_t most_;
  std::uint64_t bit_ = 0;
  std::uint64_t format_ = 0;
  std::uint64_t coding_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> position_;
  std::vector<float> value_;
};

}  // namespace topknot::core
