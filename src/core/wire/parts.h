// SPDX-License-Identifier: Apache-2.0
//
// The two halves of a payload, private to this folder: positions (index_write.cc,
// index_read.cc) and values (values.cc, scale.cc). Each half says how many
// bytes it takes before one of them is written or believed, so a message is sized once
// and checked before anything is allocated.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/wire/wire.h"

namespace topknot::core::wire {

static_assert(std::endian::native == std::endian::little,
              "messages are little endian and are read and written as they lie");

template <typename T>
T load(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <typename T>
void store(std::byte* to, T x) {
  std::memcpy(to, &x, sizeof x);
}

constexpr std::uint64_t bytes_of(std::uint64_t bits) { return (bits + 7) / 8; }

inline Fault garbled(std::string_view field, std::uint64_t got, std::uint64_t want) {
  return {Fault::Kind::garbled, field, got, want};
}

// ---- positions

/// Gaps are packed in blocks of so many.
inline constexpr std::size_t kBlock = 128;

constexpr std::uint64_t blocks_of(std::uint64_t count) {
  return (count + kBlock - 1) / kBlock;
}

/// The low `width` bits; `width` is at most 32.
constexpr std::uint64_t mask_of(unsigned width) {
  return (std::uint64_t{1} << width) - 1;
}

/// Where `rice` cuts the `m` gaps of a block that add up to `sum`. Of all parameters this
/// one makes m * (parameter + 1) + sum / 2^parameter smallest.
constexpr unsigned rice_parameter(std::uint64_t sum, std::uint64_t m) {
  return sum < m ? 0 : static_cast<unsigned>(std::bit_width(sum / m)) - 1;
}
inline constexpr unsigned kMostParameter = 31;

/// How the positions of one vector will travel. The coding is never `automatic`.
struct IndexPlan {
  Coding coding = Coding::plain;
  std::uint64_t bytes = 0;
  std::uint64_t remainder_bytes = 0;  ///< of `rice`
};

/// Finds the plan for `wanted`. `dense` needs every position of the region; a vector that
/// lacks some goes as a bitmap instead. An empty vector takes no bytes in any coding.
IndexPlan plan_index(Coding wanted, std::span<const std::uint32_t> index, Region region);

/// Writes exactly plan.bytes bytes at `out`.
void write_index(const IndexPlan& plan, std::span<const std::uint32_t> index,
                 Region region, std::byte* out);

/// The length that a message must have, going by what it says of itself: by `coding`,
/// `count` and the first bytes of its payload. `count` is at most `size`.
std::optional<Fault> expected_length(std::span<const std::byte> message, Coding coding,
                                     Values values, std::uint64_t count,
                                     std::uint64_t size, std::uint64_t& length);

/// Fills `index` with the positions of a message whose length is as expected. They end,
/// and the values begin, at `end`.
std::optional<Fault> read_index(std::span<const std::byte> message, const std::byte* end,
                                Coding coding, Region region,
                                std::span<std::uint32_t> index);

/// The most bytes that `most` positions, or fewer, of a region of `size` take.
std::uint64_t index_bound(Coding coding, std::uint64_t most, std::uint64_t size);

// ---- values

/// The bit pattern of a magnitude: signed, for that is what every processor compares
/// quickly. Above that of infinity are the NaNs.
inline std::int32_t magnitude_bits(float x) {
  return std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF;
}
inline constexpr std::int32_t kInfinityBits = 0x7F800000;

/// The scales of i8 and i2 are normal floats, and so are 1 / scale, 127 * the largest of
/// i8 and 3 * the largest of i2; or they are zero.
inline constexpr int kNoScale = -127;
inline constexpr int kLeastExponent = -126;
inline constexpr int kMostExponentI8 = 121;
inline constexpr int kMostExponentI2 = 126;

/// 2^exponent; zero for kNoScale.
inline float scale_of(int exponent) {
  return std::bit_cast<float>((exponent + 127) << 23);
}

/// The exponent of the smallest scale with |v| <= 127 * scale for every finite value.
int scale_exponent_i8(std::span<const float> value);
/// The exponent of the scale that makes the squared error of i2 smallest.
int scale_exponent_i2(std::span<const float> value);

/// How many bytes `count` values take.
std::uint64_t value_bytes(Values format, std::uint64_t count);

/// Writes value_bytes() bytes at `out`. When `error` is not empty, error[i] becomes
/// value[i] minus what will be read.
void write_values(Values format, std::span<const float> value, std::byte* out,
                  std::span<float> error);

/// Whether the value_bytes() bytes at `in` are such as write_values() makes.
std::optional<Fault> check_values(Values format, std::uint64_t count,
                                  const std::byte* in);

/// Reads values that were checked: over `value`, or in addition to it.
void read_values(Values format, const std::byte* in, std::span<float> value);
void add_values(Values format, const std::byte* in, std::span<float> value);

}  // namespace topknot::core::wire
