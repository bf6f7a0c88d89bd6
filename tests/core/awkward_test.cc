// SPDX-License-Identifier: Apache-2.0
//
// Every selection of the core on vectors that are hard to select from, at the sizes where
// its insides change, held to the naive selection. exact_topk_test.cc has the rest.
#include "core/awkward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/at_most.h"
#include "core/every_target.h"
#include "core/magnitudes.h"
#include "core/merge.h"
#include "core/naive.h"
#include "core/quantile.h"
#include "core/rows.h"
#include "core/select.h"
#include "core/shortlist.h"

namespace topknot::core {
namespace {

using topknot::testing::Awkward;
using topknot::testing::kAwkward;
using topknot::testing::kAwkwardSizes;
using topknot::testing::Ranking;
using topknot::testing::same_bits;

/// Calls `body` for each kind and size of vector, which are all made once.
template <typename Body>
void for_each_awkward(Body body) {
  static const auto all = [] {
    std::vector<std::pair<std::string, Ranking>> made;
    for (const Awkward& kind : kAwkward)
      for (const std::size_t n : kAwkwardSizes)
        made.emplace_back(std::string(kind.name) + ", n = " + std::to_string(n),
                          Ranking(kind.vector(n)));
    return made;
  }();
  for (const auto& [name, ranking] : all) {
    SCOPED_TRACE(name);
    body(ranking);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

std::vector<float> copy(const Ranking& ranking) {
  return {ranking.vector().begin(), ranking.vector().end()};
}

/// Magnitudes of the vector and the floats next to them.
std::vector<float> thresholds(const Ranking& ranking) {
  std::vector<float> all = {0};
  for (const std::size_t part : {1, 3, 50}) {
    if (ranking.size() < part) continue;
    const float at = ranking.magnitude_at(ranking.size() / part - 1);
    all.insert(all.end(), {at, std::nextafter(at, INFINITY), std::nextafter(at, 0.0F)});
  }
  return all;
}

TEST(AwkwardVector, IsFiniteEightfold) {
  for_each_awkward([](const Ranking& ranking) {
    for (const float v : ranking.vector()) ASSERT_TRUE(std::isfinite(8 * v));
  });
}

TEST(AwkwardVector, GivesAllThatReachAThreshold) {
  for_each_awkward([](const Ranking& ranking) {
    std::vector<float> residual = copy(ranking);
    Sparse out;
    for (const float threshold : thresholds(ranking)) {
      const std::size_t count = ranking.reaching(threshold);
      ASSERT_EQ(count_at_least(residual, threshold), count);
      ASSERT_TRUE(fold_and_select(residual, {}, threshold, out));
      ASSERT_TRUE(same_bits(out, ranking.largest(count))) << threshold;
    }
  });
}

TEST(AwkwardVector, GivesTheSameOnEveryTarget) {
  for (const Awkward& kind : kAwkward) {
    const Ranking ranking(kind.vector(4097));
    std::vector<float> residual = copy(ranking);
    on_every_target([&] {
      Sparse out;
      for (const float threshold : thresholds(ranking)) {
        ASSERT_TRUE(fold_and_select(residual, {}, threshold, out));
        ASSERT_TRUE(same_bits(out, ranking.largest(ranking.reaching(threshold))))
            << kind.name << " at " << threshold;
      }
    });
  }
}

TEST(AwkwardVector, GivesAtMostAsManyAsAreAllowed) {
  for_each_awkward([](const Ranking& ranking) {
    const std::size_t n = ranking.size();
    std::vector<float> residual = copy(ranking);
    Sparse out;
    for (const float threshold : thresholds(ranking))
      for (const std::size_t most : {n / 20, n / 2}) {
        const std::size_t k = most / 2;
        const std::size_t count = ranking.reaching(threshold);
        ASSERT_TRUE(fold_and_select_at_most(residual, {}, threshold, k, most, out));
        ASSERT_TRUE(same_bits(out, ranking.largest(count > most ? k : count)))
            << threshold << ", at most " << most;
      }
  });
}

// The sweep runs out of room, which is 65,536 more than are allowed.
TEST(AwkwardVector, GivesTheLargestWhereRoomRunsOut) {
  for (const Awkward& kind : kAwkward) {
    const std::size_t n = 150'001;
    const Ranking ranking(kind.vector(n));
    std::vector<float> residual = copy(ranking);
    Sparse out;
    for (const std::size_t k : {0U, 1U, 3000U, 40'000U}) {
      ASSERT_TRUE(fold_and_select_at_most(residual, {}, 0, k, k, out));
      ASSERT_TRUE(same_bits(out, ranking.largest(k))) << kind.name << ", k = " << k;
      Shortlist list;
      ASSERT_TRUE(list.fold(residual, {}, k, out, [](std::span<const float>) {}));
      list.cut_to(k, out);
      ASSERT_TRUE(same_bits(out, ranking.largest(k))) << kind.name << ", k = " << k;
    }
  }
}

TEST(AwkwardVector, HasItsLargestOnTheShortlist) {
  for_each_awkward([](const Ranking& ranking) {
    const std::size_t n = ranking.size();
    std::vector<float> residual = copy(ranking);
    Sparse pairs;
    for (const std::size_t k : {std::min<std::size_t>(n, 1), n / 30, n / 2}) {
      Shortlist list;
      for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(list.fold(residual, {}, k, pairs, [](std::span<const float>) {}));
        ASSERT_GE(pairs.size(), std::min(2 * k + 1, n));
        for (const float threshold : thresholds(ranking)) {
          const std::size_t listed = count_at_least(pairs.value, threshold);
          const std::size_t count = ranking.reaching(threshold);
          ASSERT_TRUE(count <= 2 * k ? listed == count : listed > 2 * k)
              << listed << " of " << count << " reach " << threshold << ", k = " << k;
        }
        list.cut_to(k, pairs);
        ASSERT_TRUE(same_bits(pairs, ranking.largest(k))) << "k = " << k;
      }
    }
  });
}

// Rows along the vector and across it; all rows are as long, so each gives as many.
TEST(AwkwardVector, HasTheLargestOfEveryRow) {
  for (const Awkward& kind : kAwkward)
    for (const auto& [outer, length, stride] :
         {std::array<std::uint64_t, 3>{3, 2049, 1}, {1, 9000, 1}, {2, 300, 17}}) {
      const std::vector<float> x = kind.vector(outer * length * stride);
      Rows rows({{{"x", 0, {outer, length, stride}}}});
      for (const std::size_t k : {x.size() / 100, x.size() / 3, x.size()}) {
        std::vector<float> residual = x;
        Sparse out;
        ASSERT_TRUE(rows.select(residual, {}, k, out));
        std::map<std::uint32_t, float> want;
        for (std::uint64_t o = 0; o < outer; ++o)
          for (std::uint64_t s = 0; s < stride; ++s) {
            std::vector<float> row;
            for (std::uint64_t i = 0; i < length; ++i)
              row.push_back(x[(o * length + i) * stride + s]);
            const std::size_t each = rows.count(k) / (outer * stride);
            for (const std::uint32_t i : Ranking(row).largest(each).index)
              want[static_cast<std::uint32_t>((o * length + i) * stride + s)] = row[i];
          }
        Sparse naive;
        for (const auto& [index, value] : want) naive.push_back(index, value);
        ASSERT_TRUE(same_bits(out, naive)) << kind.name << ", k = " << k;
      }
    }
}

TEST(AwkwardVector, HasTheHistogramOfACountOneByOne) {
  for_each_awkward([](const Ranking& ranking) {
    Histogram bins = {};
    add_to_histogram(ranking.vector(), bins);
    Histogram naive = {};
    for (const float v : ranking.vector())
      ++naive[std::bit_cast<std::uint32_t>(std::abs(v)) >> 20];
    ASSERT_EQ(bins, naive);
    for (const std::size_t least : {std::size_t{1}, ranking.size() / 2, ranking.size()})
      ASSERT_GE(ranking.reaching(floor_over(ranking.vector(), least)),
                std::min(least, ranking.size()));
  });
}

TEST(AwkwardVector, HasTheMagnitudesAndTheTailOfAnAdditionOneByOne) {
  for_each_awkward([](const Ranking& ranking) {
    for (const float threshold : thresholds(ranking)) {
      std::vector<float> want;
      double sum = 0;
      double square = 0;
      for (const float v : ranking.vector()) {
        if (std::abs(v) < threshold) continue;
        want.push_back(std::abs(v));
        sum += std::abs(v);
        square += static_cast<double>(v) * v;
      }
      std::vector<float> got;
      append_magnitudes(ranking.vector(), threshold, got);
      ASSERT_TRUE(same_bits(got, want));
      const Tail end = tail(got, threshold);
      ASSERT_EQ(end.count, static_cast<double>(want.size()));
      ASSERT_NEAR(end.sum, sum, 1e-10 * sum);
      ASSERT_NEAR(end.square, square, 1e-10 * square);
      if (!want.empty()) {
        ASSERT_EQ(end.smallest, *std::min_element(want.begin(), want.end()));
      }
    }
  });
}

TEST(AwkwardVector, HasTheSumOfItsLogarithms) {
  for_each_awkward([](const Ranking& ranking) {
    LogSum logs;
    logs.add(ranking.vector());
    double want = 0;
    std::size_t count = 0;
    for (const float v : ranking.vector()) {
      if (v == 0) continue;
      want += std::log(std::abs(static_cast<double>(v)));
      ++count;
    }
    ASSERT_EQ(logs.count(), count);
    ASSERT_NEAR(logs.sum(), want, 1e-9 * static_cast<double>(count + 1));
  });
}

// Every other coordinate, every third, and halves that only touch.
TEST(AwkwardVector, AddsUpFromItsParts) {
  for_each_awkward([](const Ranking& ranking) {
    const std::span<const float> x = ranking.vector();
    for (const int how : {0, 1, 2}) {
      Sparse a;
      Sparse b;
      Sparse want;
      std::vector<std::uint32_t> both;
      for (std::uint32_t i = 0; i < x.size(); ++i) {
        const bool in_a = how == 0   ? i % 2 == 0
                          : how == 1 ? i % 3 == 0
                                     : 2 * i < x.size();
        const bool in_b = how == 1 ? i % 2 == 0 : !in_a;
        if (in_a) a.push_back(i, x[i]);
        if (in_b) b.push_back(i, -x[i]);
        if (in_a || in_b)
          want.push_back(i, in_a && in_b ? x[i] - x[i] : in_a ? x[i] : -x[i]);
        if (in_a && in_b) both.push_back(i);
      }
      Sparse out;
      add(a, b, out);
      ASSERT_TRUE(same_bits(out, want));
      std::vector<std::uint32_t> shared;
      intersect(a.index, b.index, shared);
      ASSERT_EQ(shared, both);
    }
  });
}

// Shares and shapes at the ends of their ranges. What is asked for has that share above.
TEST(AwkwardShare, HasAQuantile) {
  for (const double q : {1e-300, 1e-100, 1e-38, 1e-16, 1e-7, 0.3, 0.5, 0.75, 1 - 1e-7}) {
    EXPECT_NEAR(normal_tail(normal_quantile(q)) / q, 1, 1e-9) << q;
    for (const double mean : {0.0, 1e-30, 1.0, -1e6})
      for (const double deviation : {1e-30, 1.0, 1e30}) {
        const double t = normal_magnitude_quantile(mean, deviation, q);
        ASSERT_GE(t, 0) << mean << " " << deviation << " " << q;
        ASSERT_TRUE(std::isfinite(t)) << mean << " " << deviation << " " << q;
      }
    for (const double shape : {1e-3, 0.5, 1.0, 99'999.0, 1e5, 1e7}) {
      const double x = gamma_quantile(shape, q);
      ASSERT_GE(x, 0) << shape << " " << q;
      ASSERT_TRUE(std::isfinite(x)) << shape << " " << q;
    }
  }
}

}  // namespace
}  // namespace topknot::core
