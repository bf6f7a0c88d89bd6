// SPDX-License-Identifier: Apache-2.0
//
// cltk: one rank in turn says where. What it shares with its family is in
// shared_index_sum_test.cc.
#include <gtest/gtest.h>

#include "collectives/training.h"
#include "collectives/trials.h"

namespace topknot::testing {
namespace {

TEST(CltK, LetsTheRanksLeadInTurn) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto steps = train({.collective = "cltk",
                              .layout = Layout::flat(1000),
                              .k = 20,
                              .ranks = ranks,
                              .steps = 2 * ranks + 1,
                              .gradient = uncorrelated});
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Outcome& step = steps[s];
      const std::size_t leader = s % static_cast<std::size_t>(ranks);
      EXPECT_EQ(step.index, places_of_largest(step.folded[leader], 20)) << "step " << s;
      for (const std::uint32_t i : step.index) {
        float sum = 0;  // in rank order
        for (const std::vector<float>& one : step.folded) sum += one[i];
        EXPECT_EQ(step.sum[i], sum) << "step " << s << " at " << i;
      }
    }
  }
}

/// topk that counts how often it is asked, and for how many.
class Counting final : public Compressor {
 public:
  explicit Counting(std::unique_ptr<Compressor> topk) : topk_(std::move(topk)) {}
  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    ++asked;
    return topk_->select(residual, grad, k + more, out);
  }

  int asked = 0;
  std::size_t more = 0;  // so many beyond k are given

 private:
  std::unique_ptr<Compressor> topk_;
};

TEST(CltK, SelectsOnTheLeaderAlone) {
  run(3, [](Transport& link) {
    const Layout layout = Layout::flat(100);
    Counting compressor(make_compressor(Spec::parse("topk"), layout));
    const auto made = make_collective(Spec::parse("cltk"), link, compressor, layout);
    std::vector<float> residual(100);
    for (int step = 0; step < 7; ++step) {
      const int before = compressor.asked;
      std::vector<float> grad(100, 1.0F);
      made->reduce(residual, grad, 5, grad);
      EXPECT_EQ(compressor.asked - before, link.rank() == step % 3 ? 1 : 0);
    }
  });
}

TEST(CltK, CutsWhatACompressorGivesBeyondK) {
  run(2, [](Transport& link) {
    const Layout layout = Layout::flat(100);
    Counting compressor(make_compressor(Spec::parse("topk"), layout));
    compressor.more = 30;
    const auto made = make_collective(Spec::parse("cltk"), link, compressor, layout);
    std::vector<float> residual(100);
    std::vector<float> grad(100);
    std::iota(grad.begin(), grad.end(), 1.0F);
    const Reduced reduced = made->reduce(residual, grad, 5, grad);
    EXPECT_EQ(std::vector(reduced.index.begin(), reduced.index.end()),
              (std::vector<std::uint32_t>{95, 96, 97, 98, 99}));
  });
}

// A follower takes no part in the choice, and none is left with what the last one had.
TEST(CltK, FollowsALeaderThatHasNothing) {
  const auto steps =
      train({.collective = "cltk",
             .layout = Layout::flat(50),
             .k = 3,
             .ranks = 2,
             .steps = 4,
             .gradient = [](int rank, int,
                            std::size_t i) { return rank == 0 && i < 9 ? 2.0F : 0.0F; },
             .compressor = "threshold:value=1"});
  for (std::size_t s = 0; s < steps.size(); ++s)
    EXPECT_EQ(steps[s].index.size(), s % 2 == 0 ? 3U : 0U) << "step " << s;
}

TEST(CltK, KeepsTheLawWithAnyValues) {
  for (const int ranks : {1, 2, 3, 6, 9})
    for (const char* values : {"f32", "bf16", "i8"})
      hold_to_the_law(std::string("cltk:values=") + values, ranks);
}

TEST(CltK, AppliesAStepOnAllRanksOrOnNone) {
  for (const int ranks : {2, 3, 5, 8}) hold_nonfinite_steps("cltk", ranks);
}

TEST(CltK, LosesNothingWithARank) {
  for (const int ranks : {2, 3, 5}) hold_a_lost_rank("cltk", ranks);
}

}  // namespace
}  // namespace topknot::testing
