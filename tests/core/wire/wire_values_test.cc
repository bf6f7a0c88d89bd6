// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "core/wire/reference.h"

namespace topknot::core {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// What a vector of values looks like to the receiver, and the error handed back.
struct Received {
  std::vector<float> value;
  std::vector<float> error;
};

Received receive(std::span<const float> value, Values values) {
  Message message;
  Received got{std::vector<float>(value.size()), std::vector<float>(value.size(), -1)};
  encode_dense(kStamp, value, values, false, message, got.error);
  Decoded said;
  EXPECT_FALSE(decode_dense(message, kStamp, got.value, false, said));
  return got;
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::vector<float> any_floats(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  while (x.size() < count) {
    const float v = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (std::isfinite(v)) x.push_back(v);
  }
  return x;
}

TEST(WireValues, F32ArrivesBitForBit) {
  std::vector<float> x = any_floats(1000, 1);
  x.insert(x.end(), {0.0F, -0.0F, kInf, -kInf, kNan, kTiny, kMax});
  const Received got = receive(x, Values::f32);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(bits_of(got.value[i]), bits_of(x[i]));
    EXPECT_EQ(got.error[i], 0.0F);
  }
}

TEST(WireValues, Bf16RoundsToNearestEven) {
  std::vector<float> x = any_floats(200000, 1);
  for (std::uint32_t half = 0; half < 0x7F7F; ++half) {
    for (const std::uint32_t low : {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF}) {
      x.push_back(std::bit_cast<float>(half << 16 | low));
    }
  }
  const Received got = receive(x, Values::bf16);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto down = std::bit_cast<float>(bits_of(x[i]) & 0xFFFF0000);
    const auto up = std::bit_cast<float>((bits_of(x[i]) & 0xFFFF0000) + 0x10000);
    const double below = std::abs(double{x[i]} - down);
    const double above = std::isinf(up) ? 1e300 : std::abs(double{up} - x[i]);
    const bool even = (bits_of(down) & 0x10000) == 0;
    ASSERT_EQ(got.value[i], below < above || (below == above && even) ? down : up)
        << x[i];
  }
}

TEST(WireValues, Bf16LeavesFiniteWhatIsFinite) {
  const float largest = std::bit_cast<float>(0x7F7F0000U);
  const std::vector<float> x = {kMax, -kMax, std::bit_cast<float>(0x7F7F8000U)};
  const Received got = receive(x, Values::bf16);
  EXPECT_EQ(got.value, (std::vector<float>{largest, -largest, largest}));
  EXPECT_EQ(got.error,
            (std::vector<float>{kMax - largest, largest - kMax, x[2] - largest}));
}

TEST(WireValues, Bf16KeepsInfinityAndNan) {
  const std::vector<float> x = {kInf,
                                -kInf,
                                kNan,
                                std::bit_cast<float>(0x7F800001U),
                                std::bit_cast<float>(0xFFFFFFFFU),
                                -0.0F};
  const Received got = receive(x, Values::bf16);
  EXPECT_EQ(got.value[0], kInf);
  EXPECT_EQ(got.value[1], -kInf);
  for (const std::size_t i : {2, 3, 4}) EXPECT_TRUE(std::isnan(got.value[i])) << i;
  EXPECT_EQ(bits_of(got.value[5]), bits_of(-0.0F));
}

TEST(WireValues, ErrorAndArrivedValueAddUpExactly) {
  std::vector<float> whole(3000);
  std::iota(whole.begin(), whole.end(), -1500.0F);
  for (const Values values : {Values::bf16, Values::i8}) {
    for (const std::vector<float>& x : {any_floats(3000, 5), whole}) {
      const Received got = receive(x, values);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(got.value[i] + got.error[i], x[i]) << name(values);
        ASSERT_EQ(double{got.value[i]} + got.error[i], x[i]) << name(values);
      }
    }
  }
}

TEST(WireValues, ErrorMayTakeThePlaceOfTheValues) {
  for (const Values values : kAllValues) {
    const std::vector<float> x = any_floats(1000, 3);
    const Received apart = receive(x, values);
    std::vector<float> place = x;
    Message message;
    encode_dense(kStamp, place, values, false, message, place);
    EXPECT_EQ(place, apart.error) << name(values);
  }
}

TEST(WireValues, I8IsTheNearestOf255StepsThatReachTheLargest) {
  Random random(4);
  for (int exponent = -125; exponent < 120; ++exponent) {
    std::vector<float> x(100);
    for (float& v : x) v = std::ldexp(2 * random.uniform() - 1, exponent);
    const Received got = receive(x, Values::i8);
    const float most = std::abs(*std::ranges::max_element(
        x, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    double scale = 0x1p-126;
    while (127 * scale < most) scale *= 2;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got.value[i], scale * std::nearbyint(x[i] / scale));
    }
  }
}

TEST(WireValues, I8RoundsTiesToEvenSteps) {
  const std::vector<float> x = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -126.5F};
  EXPECT_EQ(receive(x, Values::i8).value,
            (std::vector<float>{127, 0, 2, 2, 0, -2, -126}));
  // 127.25 is more than 127 steps of 1.
  EXPECT_EQ(receive(std::vector<float>{127.25F, 1}, Values::i8).value,
            (std::vector<float>{128, 0}));
}

// The squared error with a scale of 2^exponent, or of zero.
double squared_error(std::span<const float> x, double scale) {
  double sum = 0;
  for (const float v : x) {
    const double near = std::abs(v) < 2 * scale ? scale : 3 * scale;
    sum += (std::abs(v) - near) * (std::abs(v) - near);
  }
  return sum;
}

TEST(WireValues, I2TakesTheScaleOfLeastSquaredError) {
  Random random(4);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<float> x(1 + random.below(40));
    // One in four where floats end.
    const float center = trial % 4 == 0 ? 0x1p-127F : std::exp(4 * random.laplace());
    for (float& v : x) v = center * random.laplace();
    const Received got = receive(x, Values::i2);
    double least = squared_error(x, 0);
    for (int exponent = -126; exponent <= 126; ++exponent) {
      least = std::min(least, squared_error(x, std::ldexp(1.0, exponent)));
    }
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += std::pow(double{x[i]} - got.value[i], 2);
    }
    ASSERT_LE(sum, least * (1 + 1e-9));
  }
}

// Around the lengths that are coded in one go and those that are read by a table.
TEST(WireValues, I2TakesTheNearerLevelAtEveryLength) {
  Random random(6);
  for (const std::size_t n : {1, 2, 3, 4, 5, 255, 256, 257, 259, 511, 513, 4095, 4096,
                              4097, 4098, 4099, 4100, 8191}) {
    std::vector<float> x(n);
    for (float& v : x) v = random.laplace();
    x[n / 2] = -0.0F;
    x[n / 3] = std::nextafter(2.0F, 0.0F);
    const Received got = receive(x, Values::i2);
    float scale = kMax;
    for (const float v : got.value) scale = std::min(scale, std::abs(v));
    // Where only the larger level occurs, the smaller is a third of it.
    if (bits_of(scale) << 9 != 0) scale /= 3;
    for (std::size_t i = 0; i < n; ++i) {
      const float level = std::abs(x[i]) < 2 * scale ? scale : 3 * scale;
      ASSERT_EQ(got.value[i], std::copysign(level, x[i])) << n << ", " << i;
      ASSERT_EQ(bits_of(got.error[i]), bits_of(x[i] - got.value[i]));
    }
  }
}

// The least error of all scales for so many values that their counts are added up in parts.
TEST(WireValues, I2TakesTheScaleOfLeastSquaredErrorOfVeryManyValues) {
  for (const std::size_t n : {(1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3 << 18}) {
    // The largest mantissas, all in one octave but for the last value.
    std::vector<float> x(n, std::nextafter(2.0F, 0.0F));
    x.back() = 0x1p-20F;
    const Received got = receive(x, Values::i2);
    double best = 0;
    double least = squared_error(x, 0);
    for (int exponent = -126; exponent <= 126; ++exponent) {
      const double error = squared_error(x, std::ldexp(1.0, exponent));
      if (error < least) best = std::ldexp(1.0, exponent);
      least = std::min(least, error);
    }
    EXPECT_EQ(got.value.back(), best);
  }
}

TEST(WireValues, ReadBackIsWhatReadersFind) {
  for (const std::size_t n : {0, 1, 5, 300, 5000}) {
    const Sparse pairs = random_pairs({0, 20000}, n, n);
    for (const Values values : kAllValues) {
      if (values == Values::none) continue;
      const Message message = message_of(pairs, {0, 20000}, {Coding::automatic, values});
      Sparse got;
      Decoded said;
      ASSERT_FALSE(decode(message, kStamp, {0, 20000}, n, got, said));
      std::vector<float> back(n, kNan);
      read_back(message, back);
      EXPECT_EQ(back, got.value) << name(values);
    }
  }
}

TEST(WireValues, StepsOfZerosAreZeros) {
  for (const Values values : {Values::i8, Values::i2}) {
    const Received got = receive(std::vector<float>{0, -0.0F, 0, 0, 0}, values);
    for (const float v : got.value) EXPECT_EQ(bits_of(v), 0U);
    for (const float e : got.error) EXPECT_EQ(e, 0.0F);
  }
}

TEST(WireValues, StepsReachFromTheSmallestFloatToTheLargest) {
  for (const Values values : {Values::i8, Values::i2}) {
    for (const float v : {kTiny, 0x1p-126F, 0x1p-100F, 1.0F, kMax}) {
      const std::vector<float> x = {v, -v, v, -v, 0};
      const Received got = receive(x, values);
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(std::isfinite(got.value[i]));
        EXPECT_TRUE(std::isfinite(got.error[i]));
        EXPECT_LE(std::abs(got.error[i]), std::max(v / 3, 0x1p-126F)) << v;
      }
    }
  }
}

TEST(WireValues, StepsStayReadableWhenValuesAreNonfinite) {
  for (const Values values : {Values::i8, Values::i2}) {
    for (const std::vector<float>& x :
         {std::vector<float>{kNan}, {kInf, -kInf}, {1, kNan, -kNan, kInf, -kInf, -2}}) {
      const Received got = receive(x, values);
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(std::isfinite(got.value[i]));
        EXPECT_EQ(std::isfinite(got.error[i]), std::isfinite(x[i]));
        if (std::isfinite(x[i])) {  // then the others have not spoilt its scale
          EXPECT_LE(std::abs(got.error[i]), values == Values::i8 ? 1 / 64.0F : 0.5F);
        }
      }
    }
  }
}

// ---- dense

TEST(WireDense, OverwritesOrAdds) {
  for (const std::size_t n : {0, 1, 3, 4, 5, 1000}) {
    for (const Values values : kAllValues) {
      const std::vector<float> x = any_floats(n, n);
      Message message;
      encode_dense(kStamp, x, values, true, message, {});
      EXPECT_LE(message.size(), message_bound(n, n, {Coding::dense, values}));
      Decoded said;
      std::vector<float> read(n, kNan);
      ASSERT_FALSE(decode_dense(message, kStamp, read, false, said));
      EXPECT_TRUE(said.nonfinite);
      EXPECT_EQ(said.count, n);
      std::vector<float> sum = any_floats(n, n + 1);
      std::vector<float> expected = sum;
      for (std::size_t i = 0; i < n; ++i) expected[i] += read[i];
      ASSERT_FALSE(decode_dense(message, kStamp, sum, true, said));
      EXPECT_EQ(sum, expected) << name(values);
    }
  }
}

TEST(WireDense, IsTheSameMessageAsThatOfAllPairs) {
  const Sparse pairs = random_pairs({0, 500}, 500, 1);
  for (const Values values : kAllValues) {
    Message dense;
    encode_dense(kStamp, pairs.value, values, false, dense, {});
    EXPECT_EQ(dense, message_of(pairs, {0, 500}, {Coding::automatic, values}));
    Sparse got;
    Decoded said;
    ASSERT_FALSE(decode(dense, kStamp, {0, 500}, 500, got, said));
    EXPECT_EQ(got.index, pairs.index);
  }
}

}  // namespace
}  // namespace topknot::core
