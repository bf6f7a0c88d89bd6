// SPDX-License-Identifier: Apache-2.0
#include "core/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "copy_of.h"
#include "core/random.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot::core {
namespace {

/// The most coordinates of a row that are a share of it for which, of n, k or fewer would be
/// wanted.
std::uint64_t most_for(std::uint64_t length, std::uint64_t k, std::uint64_t n) {
  std::uint64_t most = 0;
  while (most < length && (most + 1) * n / length <= k) ++most;
  return most;
}

/// One row at a time, by sorting.
Sparse by_sorting(const Layout& layout, std::span<const float> residual, std::size_t k) {
  std::vector<std::uint32_t> all;
  const std::uint64_t n = layout.size();
  for (const TensorSlot& tensor : layout.tensors) {
    if (tensor.size() == 0) continue;
    const bool flat = tensor.shape.size() < 2;
    const std::uint64_t outer = flat ? 1 : tensor.shape[0];
    const std::uint64_t length = flat ? tensor.size() : tensor.shape[1];
    const std::uint64_t rest = tensor.size() / outer / length;
    const std::uint64_t wanted =
        k == 0 ? 0 : std::clamp<std::uint64_t>(most_for(length, k, n), 1, length);
    for (std::uint64_t o = 0; o < outer; ++o)
      for (std::uint64_t r = 0; r < rest; ++r) {
        std::vector<std::uint32_t> row;
        for (std::uint64_t i = 0; i < length; ++i)
          row.push_back(
              static_cast<std::uint32_t>(tensor.offset + (o * length + i) * rest + r));
        std::stable_sort(row.begin(), row.end(), [&](std::uint32_t a, std::uint32_t b) {
          return std::abs(residual[a]) > std::abs(residual[b]);
        });
        all.insert(all.end(), row.begin(),
                   row.begin() + static_cast<std::ptrdiff_t>(wanted));
      }
  }
  std::sort(all.begin(), all.end());
  Sparse out;
  for (const std::uint32_t i : all) out.push_back(i, residual[i]);
  return out;
}

Layout layout_of(const std::vector<std::vector<std::uint64_t>>& shapes) {
  Layout layout;
  std::uint64_t offset = 0;
  for (const auto& shape : shapes) {
    layout.tensors.push_back({std::to_string(offset), offset, shape});
    offset += layout.tensors.back().size();
  }
  return layout;
}

const Layout kLayouts[] = {
    layout_of({{1}}),
    layout_of({{}}),
    layout_of({{33}}),
    layout_of({{5, 7}}),
    layout_of({{7, 1}}),
    layout_of({{1, 1000}}),
    layout_of({{3, 20000}}),
    layout_of({{64, 3, 3, 3}, {64}}),
    layout_of({{8, 300, 3, 3}}),
    layout_of({{2, 50, 40}, {0, 4}, {4, 100}, {9}, {}}),
    layout_of({{3, 17, 1, 1}, {30000}, {2, 6000, 2}}),
};

std::vector<float> numbers(std::size_t n, std::uint64_t seed, bool ties) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = ties ? std::trunc(2 * random.laplace()) : random.laplace();
  return x;
}

TEST(Rows, TakesTheLargestOfEveryRow) {
  for (const Layout& layout : kLayouts) {
    const std::size_t n = layout.size();
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, n / 100 + 1, n / 10 + 1, n / 2 + 1, n, n + 5})
      for (const bool ties : {false, true}) {
        Rows rows(layout);
        std::vector<float> residual(n);
        Sparse out;
        for (std::uint64_t step = 0; step < 3; ++step) {
          const std::vector<float> grad = numbers(n, step, ties);
          std::vector<float> sum = residual;
          for (std::size_t i = 0; i < n; ++i) sum[i] += grad[i];
          ASSERT_TRUE(rows.select(residual, testing::copy_of(grad), k, out));
          ASSERT_EQ(residual, sum);
          ASSERT_EQ(out, by_sorting(layout, sum, k))
              << layout.tensors[0].shape.size() << " dimensions, n = " << n
              << ", k = " << k;
          ASSERT_EQ(out.size(), rows.count(k));
        }
      }
  }
}

TEST(Rows, StaysRightWhenScalesDifferFromRowToRow) {
  const Layout layout = layout_of({{200, 500}, {40, 60, 5}});
  const std::size_t n = layout.size();
  Rows rows(layout);
  Sparse out;
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<float> residual = numbers(n, step, false);
    Random random(step);
    for (std::size_t i = 0; i < n; i += 100) {
      const auto scale = static_cast<float>(std::pow(10.0, 60 * random.uniform() - 30));
      const float kept = random.below(4) == 0 ? 0 : scale;
      for (std::size_t j = i; j < std::min(n, i + 100); ++j) residual[j] *= kept;
    }
    ASSERT_TRUE(rows.select(residual, {}, n / 50, out));
    ASSERT_EQ(out, by_sorting(layout, residual, n / 50));
  }
}

TEST(Rows, GivesOneOfEachRowHoweverFewAreWanted) {
  Rows rows(layout_of({{10, 20, 2}, {30}}));
  EXPECT_EQ(rows.count(1), 21U);
  EXPECT_EQ(rows.count(0), 0U);
  EXPECT_EQ(rows.count(430), 430U);
}

TEST(RowShare, IsThatOfEveryDensityWhichIsWholeInTheRow) {
  for (const std::uint64_t length : {1, 2, 3, 7, 10, 64, 100, 333})
    for (const std::uint64_t more : {0, 1, 5, 99, 1000, 12345}) {
      const std::uint64_t n = length + more;
      for (std::uint64_t wanted = 1; wanted <= length; ++wanted) {
        const double density = static_cast<double>(wanted) / static_cast<double>(length);
        const std::uint64_t k = coordinates_for(n, density);
        EXPECT_EQ((RowShare{k, n}.of(length)), wanted) << length << " of " << n;
        EXPECT_EQ((RowShare{k, n, density}.of(length)), wanted) << length << " of " << n;
      }
    }
}

TEST(RowShare, OfAWholeVectorIsK) {
  for (std::uint64_t n = 1; n < 60; ++n)
    for (std::uint64_t k = 0; k <= n; ++k) EXPECT_EQ((RowShare{k, n}.of(n)), k);
  const std::uint64_t most = 0xFFFFFFFF;
  EXPECT_EQ((RowShare{most, most}.of(most)), most);
}

TEST(RowShare, IsRoundedDownWhereTheDensityIsKnown) {
  EXPECT_EQ((RowShare{1000, 100000, 0.01}.of(199)), 1U);
  EXPECT_EQ((RowShare{1000, 100000, 0.01}.of(200)), 2U);
  EXPECT_EQ((RowShare{1000, 100000, 0.01}.of(3)), 1U);
  EXPECT_EQ((RowShare{29, 100, 0.29}.of(100)), 29U);
  EXPECT_EQ((RowShare{0, 100, 0.29}.of(100)), 0U);
}

TEST(Rows, RefusesAVectorOfAnotherLength) {
  Rows rows(layout_of({{10, 20}}));
  Sparse out;
  for (const std::size_t n : {0, 199, 201}) {
    std::vector<float> residual(n, 1.0F);
    EXPECT_THROW(static_cast<void>(rows.select(residual, {}, 5, out)), ContractError)
        << n;
  }
}

TEST(Rows, UndoesAFoldThatIsNonfinite) {
  const Layout layout = layout_of({{100, 50}, {64, 9, 9}, {77}});
  const std::size_t n = layout.size();
  for (const std::size_t where : {std::size_t{0}, std::size_t{4096}, n / 2, n - 1})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      Rows rows(layout);
      std::vector<float> residual(n, 3);
      std::vector<float> grad(n, 1);
      grad[where] = bad;
      Sparse out;
      out.push_back(1, 1);
      EXPECT_FALSE(rows.select(residual, testing::copy_of(grad), 100, out));
      EXPECT_TRUE(out.empty());
      EXPECT_EQ(residual, std::vector<float>(n, 3));
      grad[where] = 1;
      EXPECT_TRUE(rows.select(residual, testing::copy_of(grad), 100, out));
      EXPECT_EQ(residual, std::vector<float>(n, 4));
    }
}

}  // namespace
}  // namespace topknot::core
