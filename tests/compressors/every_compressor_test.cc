// SPDX-License-Identifier: Apache-2.0
//
// Every compressor of the catalog is held to the interface, and to its own promise on the
// count, the moment it is listed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compressors/promises.h"
#include "copy_of.h"
#include "core/awkward.h"
#include "core/naive.h"
#include "core/random.h"
#include "saved_state.h"
#include "topknot/catalog.h"
#include "wild.h"

namespace topknot {
namespace {

using testing::Awkward;
using testing::CountPromise;
using testing::kAwkward;
using testing::promise_of;

enum class Data { zeros, constant, one_spike, denormals, heavy_tails, integers };
constexpr Data kAllData[] = {Data::zeros,     Data::constant,    Data::one_spike,
                             Data::denormals, Data::heavy_tails, Data::integers};

std::vector<float> gradient(Data data, std::size_t n, int step) {
  core::Random random(static_cast<std::uint64_t>(step) + 99);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float tail = random.laplace();
    switch (data) {
      case Data::zeros:
        break;
      case Data::constant:
        x[i] = 3;
        break;
      case Data::one_spike:
        x[i] = i == n / 3 ? 1e20F : 0.0F;
        break;
      case Data::denormals:
        x[i] = tail * 1e-42F;
        break;
      case Data::heavy_tails:
        x[i] = std::copysign(std::exp(4 * std::abs(tail)), tail);
        break;
      case Data::integers:
        x[i] = std::trunc(8 * tail);
        break;
    }
  }
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class EveryCompressor : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Compressor> make(std::size_t n) const {
    return make_compressor(Spec::parse(GetParam()), Layout::flat(n));
  }

  /// One step on `residual`, checked in every respect; what was selected is left in `out`.
  void step(Compressor& compressor, std::vector<float>& residual,
            const std::vector<float>& grad, std::size_t k, int step, Sparse& out) const {
    std::vector<float> expected = residual;
    for (std::size_t i = 0; i < grad.size(); ++i) expected[i] += grad[i];
    ASSERT_TRUE(compressor.select(residual, testing::copy_of(grad), k, out));
    ASSERT_TRUE(same_bits(residual, expected))
        << "the residual is not what it was plus gradient";
    ASSERT_EQ(out.index.size(), out.value.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_LT(out.index[i], residual.size());
      if (i > 0) {
        ASSERT_LT(out.index[i - 1], out.index[i]);
      }
      ASSERT_EQ(out.value[i], residual[out.index[i]]);
    }
    const CountPromise* promise = promise_of(GetParam());
    ASSERT_TRUE(promise) << "write its promise into the table";
    if (step < promise->settles) return;
    k = std::min(k, residual.size());
    ASSERT_GE(out.size(), promise->least(k, residual.size())) << "step " << step;
    ASSERT_LE(out.size(), promise->most(k, residual.size())) << "step " << step;
  }

  static void clear(const Sparse& sent, std::vector<float>& residual) {
    for (const std::uint32_t i : sent.index) residual[i] = 0;
  }
};

TEST_P(EveryCompressor, KeepsItsPromiseOnAwkwardInput) {
  for (const std::size_t n : {0U, 1U, 31U, 33U, 32767U})
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 50, n, n + 1})
      for (const Data data : kAllData) {
        SCOPED_TRACE("n=" + std::to_string(n) + " k=" + std::to_string(k) + " data " +
                     std::to_string(static_cast<int>(data)));
        const auto compressor = make(n);
        std::vector<float> residual(n);
        Sparse out;
        for (int t = 0; t < 8; ++t) {
          step(*compressor, residual, gradient(data, n, t), k, t, out);
          if (HasFatalFailure()) return;
          clear(out, residual);
        }
      }
}

// Sizes on both sides of what is told apart inside by one pass or by several.
TEST_P(EveryCompressor, KeepsItsPromiseOnVectorsThatAreHardToSelectFrom) {
  for (const Awkward& kind : kAwkward)
    for (const std::size_t n : {1000U, 2049U, 4096U, 9001U})
      for (const std::size_t k : {n / 50, n / 4, n - 3}) {
        SCOPED_TRACE(std::string(kind.name) + ", n=" + std::to_string(n) +
                     " k=" + std::to_string(k));
        const auto compressor = make(n);
        std::vector<float> residual(n);
        Sparse out;
        for (int t = 0; t < 4; ++t) {
          step(*compressor, residual, kind.vector(n, static_cast<std::uint64_t>(t)), k, t,
               out);
          if (HasFatalFailure()) return;
          clear(out, residual);
        }
      }
}

// Of candidates there are more than have room, and all lie close together.
TEST_P(EveryCompressor, KeepsItsPromiseOnManyCoordinatesThatAreHardToSelectFrom) {
  for (const Awkward& kind : kAwkward) {
    SCOPED_TRACE(kind.name);
    const std::size_t n = 100'003;
    const auto compressor = make(n);
    std::vector<float> residual = kind.vector(n);
    Sparse out;
    for (int t = 0; t < 2; ++t) {
      step(*compressor, residual, {}, n / 9, t, out);
      if (HasFatalFailure()) return;
      clear(out, residual);
    }
  }
}

TEST_P(EveryCompressor, SelectsTheLargestWhereItPromisesExactlyTheLargest) {
  if (GetParam() != "topk" && GetParam() != "adtopk") return;
  for (const Awkward& kind : kAwkward) {
    const std::size_t n = 5000;
    const auto compressor = make(n);
    std::vector<float> residual = kind.vector(n);
    const testing::Ranking ranking(residual);
    for (const std::size_t k : {10U, 700U, 4000U}) {
      Sparse out;
      ASSERT_TRUE(compressor->select(residual, {}, k, out));
      ASSERT_TRUE(testing::same_bits(out, ranking.largest(k)))
          << kind.name << ", k=" << k;
    }
  }
}

TEST_P(EveryCompressor, SelectsFromTheResidualAloneWhereThereIsNoGradient) {
  const auto compressor = make(5000);
  std::vector<float> residual = gradient(Data::heavy_tails, 5000, 0);
  Sparse out;
  for (int t = 0; t < 8; ++t) {
    step(*compressor, residual, {}, 50, t, out);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryCompressor, ReportsWhatIsNonfiniteAndLeavesTheResidualAlone) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const std::size_t n : {1U, 33U, 32767U}) {
    const auto compressor = make(n);
    const std::size_t k = std::max<std::size_t>(n / 50, 1);
    std::vector<float> residual(n);
    Sparse out;
    int t = 0;
    for (const std::size_t where : {std::size_t{0}, n / 2, n - 1})
      for (const float value : bad) {
        std::vector<float> grad = gradient(Data::integers, n, t);
        const std::vector<float> before = residual;
        grad[where] = value;
        EXPECT_FALSE(compressor->select(residual, grad, k, out));
        EXPECT_TRUE(out.empty());
        EXPECT_TRUE(same_bits(residual, before))
            << value << " at " << where << " of " << n;
        grad = gradient(Data::integers, n, t);
        step(*compressor, residual, grad, k, t++, out);
        if (HasFatalFailure()) return;
        clear(out, residual);
      }
    residual[n / 2] = bad[0];  // and in the residual itself, with no gradient
    EXPECT_FALSE(compressor->select(residual, {}, k, out));
    EXPECT_TRUE(out.empty());
  }
}

// The first and the last coordinate, and the borders of a word, of a block of blocktopk and
// of a block of the sweep, which is also a chunk.
TEST_P(EveryCompressor, RestoresEveryBitWhereverASumIsNonfinite) {
  const std::size_t n = 9000;
  for (const std::size_t k : {std::size_t{0}, n / 50, n}) {
    const auto compressor = make(n);
    std::vector<float> residual = testing::wild(n, k);
    Sparse out;
    std::uint64_t t = 0;
    for (const std::size_t at : {0, 63, 64, 255, 256, 4095, 4096, 8191, 8192, 8999}) {
      const std::vector<float> before = residual;
      std::vector<float> grad = testing::wild(n, ++t);
      grad[at] = at % 2 == 0 ? -std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::quiet_NaN();
      ASSERT_FALSE(compressor->select(residual, grad, k, out));
      ASSERT_TRUE(out.empty());
      ASSERT_TRUE(same_bits(residual, before)) << "k=" << k << ", not finite at " << at;

      grad = testing::wild(n, ++t);
      ASSERT_TRUE(compressor->select(residual, grad, k, out));
      ASSERT_TRUE(same_bits(grad, before))
          << "k=" << k << ": the old residual is not kept";
      clear(out, residual);
    }
  }
}

TEST_P(EveryCompressor, ReportsASumThatOverflows) {
  const auto compressor = make(100);
  std::vector<float> residual(100, std::numeric_limits<float>::max());
  const std::vector<float> before = residual;
  std::vector<float> grad(100);
  grad[99] = std::numeric_limits<float>::max();
  Sparse out;
  EXPECT_FALSE(compressor->select(residual, grad, 5, out));
  EXPECT_TRUE(same_bits(residual, before));
}

TEST_P(EveryCompressor, FollowsAScaleThatDriftsAMillionfoldUpAndDown) {
  const std::size_t n = 6000;
  const std::size_t k = 120;
  for (const Data data : {Data::heavy_tails, Data::integers}) {
    const auto compressor = make(n);
    std::vector<float> residual(n);
    Sparse out;
    for (int t = 0; t < 1000; ++t) {
      const double phase = 2 * M_PI * t / 500;
      const auto scale = static_cast<float>(std::pow(10, 6 * std::sin(phase)));
      std::vector<float> grad = gradient(data, n, t);
      for (float& g : grad) g *= scale;
      step(*compressor, residual, grad, k, t, out);
      if (HasFatalFailure()) return;
      clear(out, residual);
    }
  }
}

TEST_P(EveryCompressor, DoesTheSameAgain) {
  const std::size_t n = 9000;
  const auto one = make(n);
  const auto two = make(n);
  std::vector<float> a(n);
  std::vector<float> b(n);
  Sparse of_one;
  Sparse of_two;
  for (int t = 0; t < 40; ++t) {
    const std::vector<float> grad = gradient(Data::heavy_tails, n, t);
    ASSERT_TRUE(one->select(a, testing::copy_of(grad), 90, of_one));
    ASSERT_TRUE(two->select(b, testing::copy_of(grad), 90, of_two));
    ASSERT_EQ(of_one, of_two) << "step " << t;
    clear(of_one, a);
    clear(of_two, b);
  }
}

TEST_P(EveryCompressor, CarriesOnFromWhatItSaved) {
  const std::size_t n = 9000;
  const auto one = make(n);
  std::vector<float> residual(n);
  Sparse out;
  for (int t = 0; t < 21; ++t) {
    ASSERT_TRUE(one->select(residual, testing::copy_of(gradient(Data::heavy_tails, n, t)),
                            90, out));
    clear(out, residual);
  }
  const auto two = make(n);
  testing::copy_state(*one, *two);
  std::vector<float> copy = residual;
  Sparse of_two;
  for (int t = 21; t < 60; ++t) {
    const std::vector<float> grad = gradient(Data::heavy_tails, n, t);
    ASSERT_TRUE(one->select(residual, testing::copy_of(grad), 90, out));
    ASSERT_TRUE(two->select(copy, testing::copy_of(grad), 90, of_two));
    ASSERT_EQ(out, of_two) << "step " << t;
    clear(out, residual);
    clear(of_two, copy);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all_names;
  for (const CompressorEntry& entry : compressors()) all_names.emplace_back(entry.name);
  return all_names;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryCompressor, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace topknot
