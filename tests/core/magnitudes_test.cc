// SPDX-License-Identifier: Apache-2.0
#include "core/magnitudes.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>

#include "core/random.h"

namespace topknot::core {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, 4111, 50021};

// What `body` returns must not depend on the instruction set.
template <typename Body>
auto same_on_every_target(Body body) {
  const auto result = body();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_EQ(body(), result) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  return result;
}

/// Magnitudes over the whole range of a float, denormals and zeros among them.
std::vector<float> numbers(std::size_t n) {
  Random random(n + 1);
  std::vector<float> x(n);
  for (float& v : x) {
    const auto exponent = static_cast<int>(random.below(250)) - 145;
    v = random.below(10) == 0 ? 0.0F : std::ldexp(random.laplace(), exponent);
  }
  return x;
}

TEST(LogSum, IsTheSumOfTheLogarithms) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = numbers(n);
    double want = 0;
    std::size_t count = 0;
    for (const float v : x) {
      if (v == 0) continue;
      want += std::log(std::abs(static_cast<double>(v)));
      ++count;
    }
    const double got = same_on_every_target([&] {
      LogSum logs;
      logs.add(x);
      EXPECT_EQ(logs.count(), count);
      return logs.sum();
    });
    ASSERT_NEAR(got, want, 1e-11 * static_cast<double>(n + 1) * 100) << n;
  }
}

TEST(LogSum, GoesOnFromBlockToBlock) {
  const std::vector<float> x = numbers(10007);
  LogSum whole;
  whole.add(x);
  LogSum parts;
  parts.add(std::span(x).first(4096));
  parts.add(std::span(x).subspan(4096, 4096));
  parts.add(std::span(x).subspan(8192));
  EXPECT_EQ(parts.sum(), whole.sum());
  EXPECT_EQ(parts.count(), whole.count());
}

TEST(LogSum, IsZeroForNothing) {
  LogSum logs;
  logs.add(std::vector<float>(100));
  EXPECT_EQ(logs.sum(), 0);
  EXPECT_EQ(logs.count(), 0U);
}

TEST(SumOfMagnitudes, IsTheSumInSixteenLanes) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = numbers(n);
    double lanes[16] = {};
    for (std::size_t i = 0; i < n; ++i)
      lanes[i % 16] += std::abs(static_cast<double>(x[i]));
    double want = 0;
    for (const double lane : lanes) want += lane;
    ASSERT_EQ(same_on_every_target([&] { return sum_of_magnitudes(x); }), want) << n;
  }
}

TEST(AppendMagnitudes, TakesThoseThatReachTheThresholdInOrder) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = numbers(n);
    for (const float threshold :
         {0.0F, 1e-40F, 1e-3F, 1.0F, 1e20F, std::numeric_limits<float>::infinity()}) {
      std::vector<float> want = {-7};
      for (const float v : x)
        if (std::abs(v) >= threshold) want.push_back(std::abs(v));
      const auto got = same_on_every_target([&] {
        std::vector<float> out = {-7};
        append_magnitudes(x, threshold, out);
        return out;
      });
      ASSERT_EQ(got, want) << n << " " << threshold;
    }
  }
}

TEST(KeepAtLeast, LeavesThoseThatReachTheThresholdInOrder) {
  for (const std::size_t n : kSizes) {
    std::vector<float> all;
    append_magnitudes(numbers(n), 0, all);
    std::vector<float> want;
    append_magnitudes(all, 0.01F, want);
    keep_at_least(0.01F, all);
    ASSERT_EQ(all, want) << n;
  }
}

TEST(Tail, HasTheMomentsOfWhatReachesTheThreshold) {
  for (const std::size_t n : kSizes) {
    std::vector<float> all;
    append_magnitudes(numbers(n), 0, all);
    for (const float threshold : {0.0F, 1e-3F, 1.0F, 1e30F}) {
      double count = 0;
      double sum = 0;
      double square = 0;
      float smallest = std::numeric_limits<float>::infinity();
      for (const float v : all) {
        if (v < threshold) continue;
        ++count;
        sum += v;
        square += static_cast<double>(v) * v;
        smallest = std::min(smallest, v);
      }
      same_on_every_target([&] { return tail(all, threshold).sum; });
      same_on_every_target([&] { return tail(all, threshold).square; });
      const Tail got = tail(all, threshold);
      ASSERT_EQ(got.count, count) << n;
      ASSERT_EQ(got.smallest, smallest) << n;
      ASSERT_NEAR(got.sum, sum, 1e-12 * sum) << n;
      ASSERT_NEAR(got.square, square, 1e-12 * square) << n;
    }
  }
}

}  // namespace
}  // namespace topknot::core
