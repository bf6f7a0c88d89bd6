// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "copy_of.h"
#include "core/random.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

constexpr std::size_t kLength = 20000;
constexpr std::size_t kWanted = 200;
constexpr const char* kWorkloads[] = {"any", "vgg", "lstm", "bert"};

/// A rank with error feedback whose gradients are noise around `mean`.
class Rank {
 public:
  Rank(const std::string& parameters, float mean)
      : compressor_(
            make_compressor(Spec::parse("reuse:" + parameters), Layout::flat(kLength))),
        mean_(mean),
        residual_(kLength),
        grad_(kLength) {}

  /// How many a step selects.
  std::size_t step(float scale = 1) {
    for (float& g : grad_) g = scale * (random_.laplace() + mean_);
    EXPECT_TRUE(compressor_->select(residual_, testing::copy_of(grad_), kWanted, out_));
    for (const std::uint32_t i : out_.index) residual_[i] = 0;
    return out_.size();
  }

 private:
  std::unique_ptr<Compressor> compressor_;
  float mean_;
  core::Random random_{11};
  std::vector<float> residual_;
  std::vector<float> grad_;
  Sparse out_;
};

TEST(Reuse, DoesNotSelectManyTimesKAfterAColdStart) {
  for (const std::string workload : kWorkloads) {
    Rank rank("workload=" + workload, 0.2F);
    for (int step = 0; step < 128; ++step) {
      const std::size_t count = rank.step();
      EXPECT_GE(count, kWanted / 2) << workload << " step " << step;
      EXPECT_LE(count, 2 * kWanted) << workload << " step " << step;
    }
  }
}

TEST(Reuse, IsExactOnTheFirstStepsThenEveryTauPrime) {
  Rank rank("tau_prime=16", 0.2F);
  const std::set<int> exact = {0, 1, 2, 4, 8, 16, 32, 48, 64};
  int others = 0;
  for (int step = 0; step <= 64; ++step) {
    const std::size_t count = rank.step();
    if (exact.contains(step)) {
      EXPECT_EQ(count, kWanted) << "step " << step;
    } else if (count != kWanted) {
      ++others;
    }
  }
  EXPECT_GT(others, 40) << "it does not reuse";
}

TEST(Reuse, KeepsTheCountNearKWhereverTheResidualsPileUp) {
  for (const float mean : {0.0F, 0.2F, 2.0F}) {
    Rank rank("tau_prime=100000", mean);
    for (int step = 0; step < 100; ++step) rank.step();
    double total = 0;
    for (int step = 0; step < 200; ++step) total += static_cast<double>(rank.step());
    EXPECT_NEAR(total / 200 / kWanted, 1, 0.05) << "mean " << mean;
  }
}

TEST(Reuse, RecoversAtOnceFromAJump) {
  for (const std::string workload : kWorkloads) {
    Rank rank("workload=" + workload, 0);
    float scale = 1;
    for (int step = 0; step < 200; ++step) {
      if (step % 20 == 19) scale = scale == 1 ? 1e6F : 1;
      const std::size_t count = rank.step(scale);
      EXPECT_GE(count, kWanted / 2) << workload << " step " << step;
      EXPECT_LE(count, 2 * kWanted) << workload << " step " << step;
    }
  }
}

TEST(Reuse, DoesAsPublishedWhenFaithful) {
  // Exact every tau_prime steps, and in between whatever reaches the threshold.
  Rank rank("workload=bert,faithful=1,tau_prime=16", 0.2F);
  std::size_t most = 0;
  for (int step = 0; step < 64; ++step) {
    const std::size_t count = rank.step();
    most = std::max(most, count);
    if (step % 16 == 0) {
      EXPECT_EQ(count, kWanted) << "step " << step;
    }
  }
  EXPECT_GT(most, 3 * kWanted) << "there is a bound";
}

TEST(Reuse, SurvivesAStepOnWhichNothingReachesTheThreshold) {
  for (const std::string workload : kWorkloads) {
    const auto compressor = make_compressor(
        Spec::parse("reuse:faithful=1,tau_prime=1000,workload=" + workload),
        Layout::flat(100));
    Sparse out;
    std::vector<float> residual(100, 8.0F);
    ASSERT_TRUE(compressor->select(residual, {}, 10, out));
    for (std::size_t i = 0; i < residual.size(); ++i)
      residual[i] = 2 - 0.01F * static_cast<float>(i);
    std::size_t steps = 0;
    do {
      ASSERT_TRUE(compressor->select(residual, {}, 10, out));
    } while (out.empty() && ++steps < 999);
    EXPECT_GT(steps, 0U) << workload;
    EXPECT_LT(steps, 200U) << workload << " never comes down to it";
  }
}

TEST(Reuse, IsExactWhenKChanges) {
  const auto compressor =
      make_compressor(Spec::parse("reuse:faithful=1"), Layout::flat(1000));
  Sparse out;
  for (const std::size_t k : {1000, 1000, 1000, 10, 20, 20}) {
    std::vector<float> residual(1000);
    core::Random random(k);
    for (float& value : residual) value = random.laplace();
    ASSERT_TRUE(compressor->select(residual, {}, k, out));
    EXPECT_EQ(out.size(), k);
  }
}

TEST(Reuse, RaisesTheThresholdWithinAStepAmongTies) {
  // 1.9 k coordinates tie, so that raising the threshold leaves none of them.
  const auto compressor =
      make_compressor(Spec::parse("reuse:workload=vgg"), Layout::flat(1000));
  Sparse out;
  for (int step = 0; step < 8; ++step) {
    std::vector<float> residual(1000);
    const std::size_t ties = step == 3 || step == 6 ? 190 : 100;
    std::fill_n(residual.begin() + 7, ties, 2.0F);
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    EXPECT_EQ(out.size(), 100U) << "step " << step;
    EXPECT_EQ(out.index.front(), 7U);
  }
}

}  // namespace
}  // namespace topknot
