// SPDX-License-Identifier: Apache-2.0
#include "engine/bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "core/random.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::engine {
namespace {

using topknot::testing::run;

std::vector<float> integers(std::size_t n, int rank, int step) {
  core::Random random(static_cast<std::uint64_t>(rank * 100 + step));
  std::vector<float> x(n);
  for (float& value : x) value = std::trunc(10 * random.laplace());
  return x;
}

TEST(Bucket, GivesTheMeanAndTheSameWhereverTheSumGoes) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    run(4, [&](Transport& link) {
      const std::size_t n = 500;
      Bucket apart(Layout::flat(n), Recipe::of(scheme.name), link, 1);
      Bucket in_place(Layout::flat(n), Recipe::of(scheme.name), link, 2);
      std::vector<float> sum(n);
      for (int step = 0; step < 5; ++step) {
        std::vector<float> a = integers(n, link.rank(), step);
        std::vector<float> b = a;
        const StepTrace trace = apart.step(a, 20, sum);
        in_place.step(b, 20, b);
        EXPECT_EQ(sum, b);
        EXPECT_EQ(trace.step, static_cast<std::uint64_t>(step));
        EXPECT_GT(trace.sent_bytes, 0U);
      }
    });
  }
}

TEST(Bucket, DividesASparseSumByTheNumberOfRanks) {
  run(4, [](Transport& link) {
    Bucket bucket(Layout::flat(50), Recipe::of("topka"), link, 1);
    std::vector<float> grad(50);
    grad[7] = static_cast<float>(1 + link.rank());
    std::vector<float> expected(50);
    expected[7] = 2.5F;
    bucket.step(grad, 1, grad);
    EXPECT_EQ(grad, expected);
  });
}

/// How many a rank selects, step by step, after a dense warm-up; and how many are agreed on,
/// if `agreed` is given.
std::vector<std::uint64_t> selected(const char* compressor, const char* collective,
                                    int steps, int warm_up = 0,
                                    std::vector<std::uint64_t>* agreed = nullptr) {
  std::vector<std::uint64_t> counts;
  run(2, [&](Transport& link) {
    const std::size_t n = 4000;
    Bucket bucket(Layout::flat(n),
                  {{"residual", {}}, Spec::parse(compressor), Spec::parse(collective)},
                  link, 0);
    for (int step = 0; step < steps; ++step) {
      std::vector<float> grad = integers(n, link.rank(), step);
      for (float& value : grad) value += 0.01F;  // so that no two are alike for long
      const StepTrace trace = bucket.step(grad, step < warm_up ? n : 80, grad);
      if (link.rank() != 0) continue;
      counts.push_back(trace.k_selected);
      if (agreed != nullptr) agreed->push_back(trace.count);
    }
  });
  return counts;
}

TEST(Bucket, GivesTheConstantsOfOkTopkToItsLocalHalfToo) {
  for (const std::string workload : {"vgg", "lstm", "bert"}) {
    const std::string own = "reuse:workload=" + workload;
    const std::string collective = "oktopk:workload=" + workload;
    const auto counts = selected("reuse", collective.c_str(), 100);
    EXPECT_EQ(counts, selected(own.c_str(), collective.c_str(), 100)) << workload;
    EXPECT_NE(counts, selected("reuse:workload=any", collective.c_str(), 100))
        << workload;
  }
  const auto often = selected("reuse", "oktopk:tau_prime=2", 60);
  EXPECT_GE(std::count(often.begin(), often.end(), 80U), 30);
}

TEST(Bucket, SelectsWithoutABoundWhereOkTopkIsFaithful) {
  const auto bounded = selected("reuse", "oktopk:workload=bert", 20);
  const auto published = selected("reuse", "oktopk:workload=bert,faithful=1", 20);
  EXPECT_LE(*std::max_element(bounded.begin(), bounded.end()), 160U);
  EXPECT_GT(*std::max_element(published.begin(), published.end()), 240U)
      << "a threshold of the first step is far too low on the next";
}

TEST(Bucket, FindsThresholdsAnewWhenADenseWarmUpEnds) {
  // 37 is no multiple of any interval, which the published code would need.
  for (const char* collective :
       {"oktopk", "oktopk:workload=vgg", "oktopk:workload=vgg,faithful=1"}) {
    std::vector<std::uint64_t> agreed;
    const auto counts = selected("reuse", collective, 50, 37, &agreed);
    EXPECT_EQ(counts[36], 4000U) << collective;
    EXPECT_EQ(counts[37], 80U) << collective;
    EXPECT_NEAR(static_cast<double>(agreed[37]), 80, 10) << collective << ", with ties";
  }
}

TEST(Bucket, KeepsInTheResidualExactlyWhatWasNotSent) {
  run(2, [](Transport& link) {
    const std::size_t n = 100;
    Bucket bucket(Layout::flat(n), Recipe::of("topka"), link, 0);
    std::vector<float> given = integers(n, link.rank(), 0);
    std::vector<float> grad = given;
    bucket.step(grad, 10, grad);
    std::size_t sent = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (bucket.residual()[i] == given[i]) continue;
      EXPECT_EQ(bucket.residual()[i], 0);
      ++sent;
    }
    EXPECT_LE(sent, 10U);
  });
}

TEST(Bucket, RemembersThatTheRanksOptimizersHaveComeApart) {
  run(2, [&](Transport& link) {
    const std::size_t n = 200;
    Recipe recipe = Recipe::of("knot");
    recipe.memory = Spec::parse("adam");
    Bucket straight(Layout::flat(n), recipe, link, 1);
    Bucket resumed(Layout::flat(n), recipe, link, 2);
    std::vector<float> grad = integers(n, link.rank(), 0);
    straight.step(grad, 20, grad);
    State state;
    straight.save(state);
    resumed.load(state);
    std::vector<float> a = integers(n, link.rank(), 1);
    std::vector<float> b = a;
    straight.step(a, n, a);  // as one of its own, not as the first of a dense run
    resumed.step(b, n, b);
    EXPECT_EQ(a, b);
  });
}

TEST(Bucket, TellsWhereTheLastStepSettledItsResidual) {
  for (const char* scheme : {"knot", "topka", "gtopk", "oktopk"}) {
    SCOPED_TRACE(scheme);
    run(4, [&](Transport& link) {
      const std::size_t n = 500;
      Bucket bucket(Layout::flat(n), Recipe::of(scheme), link, 0);
      const auto step = [&](std::size_t k, float extra) {
        std::vector<float> grad = integers(n, link.rank(), 0);
        for (float& value : grad) value += 0.5F;  // so that a residual of 0 was settled
        grad[0] += extra;
        bucket.step(grad, k, grad);
      };
      step(20, 0);
      std::vector<std::uint32_t> zeros;
      for (std::uint32_t i = 0; i < n; ++i)
        if (bucket.residual()[i] == 0) zeros.push_back(i);
      std::vector<std::uint32_t> settled(bucket.settled().begin(),
                                         bucket.settled().end());
      std::ranges::sort(settled);
      EXPECT_EQ(settled, zeros);
      step(20, std::numeric_limits<float>::infinity());
      EXPECT_TRUE(bucket.settled().empty());
      step(n, 0);
      EXPECT_TRUE(bucket.settled().empty()) << "all were";
    });
  }
}

TEST(Bucket, HasNoResidualWhereTheCollectiveKeepsNone) {
  run(2, [](Transport& link) {
    Bucket bucket(Layout::flat(64), Recipe::of("dense"), link, 0);
    EXPECT_TRUE(bucket.residual().empty());
    std::vector<float> grad(64, 2.0F);
    const StepTrace trace = bucket.step(grad, 1, grad);
    EXPECT_EQ(trace.count, 64U);
    EXPECT_EQ(grad, std::vector<float>(64, 2.0F));
  });
}

TEST(Bucket, LeavesTheResidualAloneOnAStepThatIsNotFinite) {
  run(3, [](Transport& link) {
    const std::size_t n = 90;
    Bucket bucket(Layout::flat(n), Recipe::of("topka"), link, 0);
    std::vector<float> sum(n);
    std::vector<float> grad = integers(n, link.rank(), 0);
    bucket.step(grad, 9, sum);
    const std::vector<float> before(bucket.residual().begin(), bucket.residual().end());
    grad = integers(n, link.rank(), 1);
    if (link.rank() == 1) grad[40] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(bucket.step(grad, 9, sum).finite);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), bucket.residual().begin()));
    grad = integers(n, link.rank(), 2);
    EXPECT_TRUE(bucket.step(grad, 9, sum).finite);
  });
}

/// A channel of one rank of two whose peer dies in the middle of a step. As a network does,
/// it still uses the memory of the messages under way: the last time when it is destroyed,
/// unless abandon() has said that the memory may be freed.
class DyingPeer final : public Transport {
 public:
  explicit DyingPeer(int& abandoned) : abandoned_(abandoned) {}
  ~DyingPeer() override {
    for (const std::span<const std::byte> bytes : sent_)
      checksum_ =
          std::accumulate(bytes.begin(), bytes.end(), checksum_,
                          [](unsigned sum, std::byte b) { return sum + unsigned(b); });
    for (std::vector<std::byte>* into : wanted_) into->assign(8, std::byte{1});
  }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  Pending send(int, std::span<const std::byte> bytes) override {
    sent_.push_back(bytes);
    return Pending{};
  }
  Pending recv(int, std::vector<std::byte>& into, std::size_t) override {
    wanted_.push_back(&into);
    return Pending{};
  }
  void wait(Pending) override { throw LinkError(1, "rank 1 has died"); }
  void abandon() noexcept override {
    ++abandoned_;
    sent_.clear();
    wanted_.clear();
  }
  bool allreduce(std::span<float>) override { return false; }
  double now() const noexcept override { return 0; }
  std::unique_ptr<Transport> channel(int) override {
    return std::make_unique<DyingPeer>(abandoned_);
  }

 private:
  int& abandoned_;
  std::vector<std::span<const std::byte>> sent_;
  std::vector<std::vector<std::byte>*> wanted_;
  unsigned checksum_ = 0;
};

TEST(Bucket, AbandonsItsMessagesBeforeTheMemoryTheyPointInto) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    int abandoned = 0;
    DyingPeer link(abandoned);
    {
      Bucket bucket(Layout::flat(300), Recipe::of(scheme.name), link, 0);
      std::vector<float> grad = integers(300, 0, 0);
      EXPECT_THROW(bucket.step(grad, 30, grad), LinkError);
    }
    EXPECT_EQ(abandoned, 1);
  }
}

TEST(Bucket, AbandonsNothingWhereEveryStepWasFinished) {
  int abandoned = 0;
  DyingPeer link(abandoned);
  { Bucket bucket(Layout::flat(300), Recipe::of("knot"), link, 0); }
  EXPECT_EQ(abandoned, 0);
}

TEST(Bucket, RefusesMoreCoordinatesThanPositionsCanSay) {
  const auto alone = make_inproc(1);
  const std::uint64_t many = std::uint64_t{1} << 32;
  for (const Layout& layout :
       {Layout::flat(many), Layout{{{"a", 0, {many - 1}}, {"b", many - 1, {1}}}},
        Layout{{{"wraps round 64 bits", 0, {many, many}}}}})
    EXPECT_THROW(Bucket(layout, Recipe::of("knot"), *alone[0], 0), ConfigError);
}

TEST(Bucket, RefusesASchemeThatIsNotThere) {
  EXPECT_REFUSAL(
      Recipe::of("oktopkk"), ConfigError,
      "There is no scheme named oktopkk; nearest is oktopk. `topknot list` has all.");
}

}  // namespace
}  // namespace topknot::engine
