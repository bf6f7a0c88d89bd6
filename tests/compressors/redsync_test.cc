// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "compressors/trials.h"

namespace topknot::testing {
namespace {

struct Ends {
  double mean = 0;
  double max = 0;
};

Ends ends_of(std::span<const float> x) {
  Ends e;
  for (const float v : x) {
    const double magnitude = std::abs(static_cast<double>(v));
    e.mean += magnitude / static_cast<double>(x.size());
    e.max = std::max(e.max, magnitude);
  }
  return e;
}

std::size_t count_over(std::span<const float> x, double threshold) {
  return static_cast<std::size_t>(std::count_if(
      x.begin(), x.end(), [&](float v) { return std::abs(v) >= threshold; }));
}

/// The search as it should be, over the whole vector.
double searched_threshold(std::span<const float> x, std::size_t k) {
  const Ends e = ends_of(x);
  double low = 0;
  double high = 1;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    const double threshold = e.mean + middle * (e.max - e.mean);
    const std::size_t count = count_over(x, threshold);
    if (count >= k && count <= 2 * k) return threshold;
    (count < k ? high : low) = middle;
  }
  return -1;
}

/// The search as published: three halvings, and upwards from between k/2 and k.
std::size_t published_count(std::span<const float> x, std::size_t k) {
  const Ends e = ends_of(x);
  double low = 0;
  double high = 1;
  std::size_t count = 0;
  while (high - low > 0.2) {
    const double middle = (low + high) / 2;
    count = count_over(x, e.mean + middle * (e.max - e.mean));
    if (count > k && count < 2 * k) break;
    (2 * count < k ? high : low) = middle;
  }
  return count;
}

std::vector<std::uint32_t> largest(std::span<const float> x, std::size_t k) {
  std::vector<std::uint32_t> all(x.size());
  std::iota(all.begin(), all.end(), 0U);
  std::stable_sort(all.begin(), all.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(x[a]) > std::abs(x[b]);
  });
  all.resize(k);
  std::sort(all.begin(), all.end());
  return all;
}

TEST(RedSync, KeepsItsPromise) { expect_promise("redsync", once_to_twice); }

TEST(RedSyncTrimmed, KeepsItsPromise) {
  expect_promise("redsync:method=trimmed", exactly);
}

TEST(RedSync, CutsWhereTheSearchOverAllWould) {
  const std::size_t n = 30000;
  for (const Kind kind : {Kind::laplace, Kind::gaussian, Kind::shifted, Kind::pareto})
    for (const std::size_t k : {3, 30, 300, 3000}) {
      const auto compressor = make("redsync", n);
      Sparse out;
      for (std::uint64_t i = 0; i < 3; ++i) {
        std::vector<float> residual = vector_of(kind, n, i);
        ASSERT_TRUE(compressor->select(residual, {}, k, out));
        const double threshold = searched_threshold(residual, k);
        ASSERT_GT(threshold, 0);
        expect_cut_at(residual, threshold, out);
      }
    }
}

TEST(RedSync, LowersTheThresholdWhenBetweenHalfOfKAndKReachIt) {
  // The mean is about 0.15. The first threshold, about 0.58, is reached by 6 of the 10
  // that are wanted; those to take are at 0.5.
  std::vector<float> residual(100, 0.1F);
  for (std::size_t i = 0; i < 5; ++i) residual[i] = 0.9F;
  residual[5] = 1;
  for (std::size_t i = 6; i < 14; ++i) residual[i] = 0.5F;
  EXPECT_LT(published_count(residual, 10), 10U);
  Sparse out;
  ASSERT_TRUE(make("redsync", 100)->select(residual, {}, 10, out));
  EXPECT_EQ(out.size(), 14U);
}

TEST(RedSync, GoesOnUntilEnoughOfAHeavyTailAreFound) {
  const std::size_t n = 100000;
  std::vector<float> residual = vector_of(Kind::pareto, n);
  EXPECT_LT(published_count(residual, 1000), 100U);
  Sparse out;
  ASSERT_TRUE(make("redsync", n)->select(residual, {}, 1000, out));
  EXPECT_GE(out.size(), 1000U);
  EXPECT_LE(out.size(), 2000U);
}

TEST(RedSync, TakesTheLargestWhenTheThresholdWouldBeBelowTheMean) {
  std::vector<float> residual = vector_of(Kind::laplace, 10000);
  Sparse out;
  ASSERT_TRUE(make("redsync", 10000)->select(residual, {}, 8000, out));
  EXPECT_EQ(out.index, largest(residual, 8000));
}

TEST(RedSync, EndsOnEqualMagnitudes) {
  for (const char* spec : {"redsync", "redsync:method=trimmed"})
    for (const Kind kind : {Kind::zeros, Kind::equal, Kind::signs}) {
      std::vector<float> residual = vector_of(kind, 5000);
      Sparse out;
      ASSERT_TRUE(make(spec, 5000)->select(residual, {}, 50, out));
      EXPECT_EQ(out.index, largest(residual, 50));
    }
}

TEST(RedSyncTrimmed, TakesTheLargestOfTheSurvivorsAndNoMore) {
  const std::size_t n = 30000;
  for (const Kind kind : kAllKinds) {
    const auto compressor = make("redsync:method=trimmed", n);
    Sparse out;
    for (std::uint64_t i = 0; i < 3; ++i) {
      std::vector<float> residual = vector_of(kind, n, i);
      ASSERT_TRUE(compressor->select(residual, {}, 300, out));
      EXPECT_EQ(out.index, largest(residual, 300)) << static_cast<int>(kind);
    }
  }
}

}  // namespace
}  // namespace topknot::testing
