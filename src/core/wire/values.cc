// SPDX-License-Identifier: Apache-2.0
//
// How values travel.
//
//   f32    | float, count times
//   bf16   | upper half of a float, count times
//   i8     | exponent of the scale i8 | step i8, count times
//   i2     | exponent of the scale i8 | code of 2 bits, count times, four to a byte from
//            the lowest bits up, spare bits zero
//   none   | nothing at all
//
// bf16 rounds to nearest even; what is finite stays finite: values that would round to
// infinity become the largest finite one.
//
// i8 reads step * scale, -127 <= step <= 127, and i2 reads scale, 3 * scale, -scale or
// -3 * scale for the codes 0, 1, 2 and 3. The scale is a power of two, so that every
// product is exact; an exponent of -127 stands for a scale of zero, under which all codes
// are zero. How it is chosen is told in scale.cc.
//
// value - read value is again a float, without rounding, for bf16 and i8: it is a
// multiple of the value's last bit and no larger than the value. For i2 it is rounded
// when the value is far smaller than the scale.
//
// NaN and infinity pass through f32 and bf16. Steps cannot say them and send a finite
// number instead; the error is then not finite, so nothing is hidden.
#include <algorithm>
#include <array>

#include "core/plant.h"
#include "core/wire/parts.h"

namespace topknot::core::wire {
namespace {

// Lets `put` write each value and say what will be read in its place.
template <typename Put>
void write_each(std::span<const float> value, std::span<float> error, Put put) {
  if (error.empty()) {
    for (std::size_t i = 0; i < value.size(); ++i) put(i, value[i]);
  } else {
    for (std::size_t i = 0; i < value.size(); ++i) error[i] = value[i] - put(i, value[i]);
  }
}

// Writes codes of zero, which is what a scale of zero makes of every value.
void write_zeros(std::span<const float> value, std::byte* codes, std::uint64_t bytes,
                 std::span<float> error) {
  std::memset(codes, 0, bytes);
  std::ranges::copy(value.first(error.size()), error.begin());
}

// ---- bf16

std::uint16_t to_bf16(float value) {
  constexpr std::int32_t kMost = 0x7F7F7FFF;  // what is above would round to infinity
  const std::int32_t magnitude = magnitude_bits(value);
  const std::int32_t finite = magnitude < kMost ? magnitude : kMost;
  const std::int32_t odd = ((finite >> 16) & 1) | TOPKNOT_PLANT(bf16_ties_upward);
  const std::int32_t rounded = (finite + 0x7FFF + odd) >> 16;
  const std::int32_t quiet = magnitude > kInfinityBits ? 0x40 : 0;
  const std::int32_t half =
      magnitude < kInfinityBits ? rounded : ((magnitude >> 16) | quiet);
  const std::int32_t sign = (std::bit_cast<std::int32_t>(value) >> 16) & 0x8000;
  return static_cast<std::uint16_t>(half | sign);
}

float from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

void write_bf16(std::span<const float> value, std::byte* out, std::span<float> error) {
  write_each(value, error, [out](std::size_t i, float v) {
    const std::uint16_t half = to_bf16(v);
    store(out + 2 * i, half);
    return from_bf16(half);
  });
}

// ---- i8

// Adding 1.5 * 2^23 rounds to nearest even and leaves the whole number in the low bits.
// Infinity and NaN become numbers out of range there, and are clamped like any other.
std::int32_t to_step(float value, float steps_per_unit) {
  constexpr float kShift = 0x1.8p23F;
  const auto step = static_cast<std::int32_t>(
      std::bit_cast<std::uint32_t>(value * steps_per_unit + kShift) -
      std::bit_cast<std::uint32_t>(kShift));
  const std::int32_t at_most = step < 127 ? step : 127;
  return at_most > -127 ? at_most : -127;
}

void write_i8(std::span<const float> value, std::byte* out, std::span<float> error) {
  const int exponent = scale_exponent_i8(value);
  *out++ = static_cast<std::byte>(exponent);
  if (exponent == kNoScale) return write_zeros(value, out, value.size(), error);
  const float scale = scale_of(exponent);
  const float steps_per_unit = scale_of(-exponent);
  write_each(value, error, [=](std::size_t i, float v) {
    const std::int32_t step = to_step(v, steps_per_unit);
    store(out + i, static_cast<std::int8_t>(step));
    return static_cast<float>(step) * scale;
  });
}

// ---- i2

using Levels = std::array<float, 4>;

Levels levels_of(int exponent) {
  const float scale = scale_of(exponent);
  return {scale, 3 * scale, -scale, -3 * scale};
}

// The code of each value, and what reading it will miss. Spelled without branches and in
// integers, so that the compiler makes vectors of it.
void code_i2(std::span<const float> value, const Levels& level, std::uint8_t* code,
             float* error) {
  const auto low = std::bit_cast<std::int32_t>(level[0]);
  const auto high = std::bit_cast<std::int32_t>(level[1]);
  const auto cut = std::bit_cast<std::int32_t>(2 * level[0]);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto bits = std::bit_cast<std::int32_t>(value[i]);
    const std::int32_t below = ((bits & 0x7FFFFFFF) - cut) >> 31;  // all ones, or none
    const std::int32_t sign = bits >> 31;                          // likewise
    code[i] = static_cast<std::uint8_t>((sign & 2) | (1 + below));
    if (error == nullptr) continue;
    const std::int32_t magnitude = (low & below) | (high & ~below);
    error[i] = value[i] - std::bit_cast<float>(magnitude | (sign & (-0x7FFFFFFF - 1)));
  }
}

// Four codes, a byte each, into one byte.
std::byte pack_four(const std::uint8_t* code) {
  std::uint32_t four;
  std::memcpy(&four, code, sizeof four);
  return static_cast<std::byte>(four | four >> 6 | four >> 12 | four >> 18);
}

void write_i2(std::span<const float> value, std::byte* out, std::span<float> error) {
  constexpr std::size_t kStretch = 256;  // codes that are made, then packed
  const int exponent = scale_exponent_i2(value);
  *out++ = static_cast<std::byte>(exponent);
  if (exponent == kNoScale) {
    return write_zeros(value, out, bytes_of(2 * value.size()), error);
  }
  const Levels level = levels_of(exponent);
  std::array<std::uint8_t, kStretch> code;
  for (std::size_t first = 0; first < value.size(); first += kStretch) {
    const std::size_t m = std::min(kStretch, value.size() - first);
    code_i2(value.subspan(first, m), level, code.data(),
            error.empty() ? nullptr : error.data() + first);
    for (std::size_t spare = m; spare % 4 != 0; ++spare) code[spare] = 0;
    for (std::size_t i = 0; i < m; i += 4) *out++ = pack_four(&code[i]);
  }
}

// ---- checking and reading

int exponent_at(const std::byte* in) { return load<std::int8_t>(in); }

std::optional<Fault> check_scale(const std::byte* in, std::uint64_t code_bytes,
                                 int most) {
  const int exponent = exponent_at(in);
  if (exponent < kNoScale || exponent > most) {
    return garbled("scale", std::to_integer<std::uint64_t>(*in),
                   static_cast<std::uint64_t>(most));
  }
  if (exponent != kNoScale) return std::nullopt;
  const std::byte* codes = in + 1;
  const std::byte* end = codes + code_bytes;
  const std::byte* first =
      std::find_if(codes, end, [](std::byte b) { return b != std::byte{0}; });
  if (first != end) return garbled("value", std::to_integer<std::uint64_t>(*first), 0);
  return std::nullopt;
}

std::optional<Fault> check_i8(const std::byte* in, std::uint64_t count) {
  if (auto fault = check_scale(in, count, kMostExponentI8)) return fault;
  if (std::memchr(in + 1, 0x80, count) != nullptr) return garbled("value", 0x80, 0x81);
  return std::nullopt;
}

std::optional<Fault> check_i2(const std::byte* in, std::uint64_t count) {
  const std::uint64_t code_bytes = bytes_of(2 * count);
  if (auto fault = check_scale(in, code_bytes, kMostExponentI2)) return fault;
  if (count % 4 == 0) return std::nullopt;
  const auto spare = std::to_integer<std::uint64_t>(in[code_bytes]) >> (2 * (count % 4));
  if (spare != 0) return garbled("padding", spare, 0);
  return std::nullopt;
}

// Gives each level that is read to `take`, with its number: four from each byte, out of a
// table of all bytes where so many are read that it is worth making.
template <typename Take>
void for_each_i2(const Levels& level, const std::byte* in, std::size_t count, Take take) {
  constexpr std::size_t kLong = 4096;
  std::size_t i = 0;
  if (count >= kLong) {
    std::array<Levels, 256> of_byte;
    for (std::size_t b = 0; b < of_byte.size(); ++b)
      of_byte[b] = {level[b & 3], level[b >> 2 & 3], level[b >> 4 & 3], level[b >> 6]};
    for (; i + 4 <= count; i += 4) {
      const Levels& four = of_byte[std::to_integer<std::size_t>(in[i / 4])];
      for (std::size_t j = 0; j < 4; ++j) take(i + j, four[j]);
    }
  }
  for (; i < count; ++i) {
    const auto four = std::to_integer<std::uint32_t>(in[i / 4]);
    take(i, level[(four >> (2 * (i % 4))) & 3]);
  }
}

// Gives each value that is read to `take`, with its number.
template <typename Take>
void for_each_value(Values format, const std::byte* in, std::size_t count, Take take) {
  if (count == 0) return;
  switch (format) {
    case Values::f32:
      for (std::size_t i = 0; i < count; ++i) take(i, load<float>(in + 4 * i));
      return;
    case Values::bf16:
      for (std::size_t i = 0; i < count; ++i) {
        take(i, from_bf16(load<std::uint16_t>(in + 2 * i)));
      }
      return;
    case Values::i8: {
      const float scale = scale_of(exponent_at(in));
      for (std::size_t i = 0; i < count; ++i) {
        take(i, static_cast<float>(load<std::int8_t>(in + 1 + i)) * scale);
      }
      return;
    }
    case Values::i2:
      return for_each_i2(levels_of(exponent_at(in)), in + 1, count, take);
    case Values::none:
      for (std::size_t i = 0; i < count; ++i) take(i, 0.0F);
      return;
  }
}

}  // namespace

std::uint64_t value_bytes(Values format, std::uint64_t count) {
  if (count == 0) return 0;
  switch (format) {
    case Values::f32:
      return 4 * count;
    case Values::bf16:
      return 2 * count;
    case Values::i8:
      return 1 + count;
    case Values::i2:
      return 1 + bytes_of(2 * count);
    case Values::none:
      break;
  }
  return 0;
}

void write_values(Values format, std::span<const float> value, std::byte* out,
                  std::span<float> error) {
  if (value.empty()) return;
  switch (format) {
    case Values::f32:
      std::memcpy(out, value.data(), value.size_bytes());
      std::ranges::fill(error, 0.0F);
      return;
    case Values::bf16:
      return write_bf16(value, out, error);
    case Values::i8:
      return write_i8(value, out, error);
    case Values::i2:
      return write_i2(value, out, error);
    case Values::none:
      return;
  }
}

std::optional<Fault> check_values(Values format, std::uint64_t count,
                                  const std::byte* in) {
  if (count == 0) return std::nullopt;
  if (format == Values::i8) return check_i8(in, count);
  if (format == Values::i2) return check_i2(in, count);
  return std::nullopt;
}

void read_values(Values format, const std::byte* in, std::span<float> value) {
  float* to = value.data();
  for_each_value(format, in, value.size(), [to](std::size_t i, float v) { to[i] = v; });
}

void add_values(Values format, const std::byte* in, std::span<float> value) {
  float* to = value.data();
  for_each_value(format, in, value.size(), [to](std::size_t i, float v) { to[i] += v; });
}

}  // namespace topknot::core::wire
