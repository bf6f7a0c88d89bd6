// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/global_topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "collectives/primitives/words.h"
#include "core/awkward.h"
#include "core/random.h"
#include "ranks.h"
#include "topknot/transports.h"

namespace topknot::collective {
namespace {

using topknot::testing::run;

struct Held {
  float magnitude;
  int rank;
  std::uint32_t index;

  /// The larger first; ties to the lower rank, then to the lower position.
  friend bool operator<(const Held& a, const Held& b) {
    return std::tuple(-a.magnitude, a.rank, a.index) <
           std::tuple(-b.magnitude, b.rank, b.index);
  }
};

/// Holds the agreement of several steps to a sort of everything. `make` gives what a rank has.
/// Where the ranks are few, each must know how many each keeps.
template <typename Make>
void hold(int ranks, std::size_t k, int steps, Make make) {
  std::vector<std::vector<Held>> kept(static_cast<std::size_t>(steps));
  std::vector<std::vector<std::uint64_t>> said(kept.size() *
                                               static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run(ranks, [&](Transport& link) {
    Params params;
    MessageChannel channel(link, "test", params);
    GlobalTopK agreement;
    for (int step = 0; step < steps; ++step) {
      channel.begin(1000, k);
      Sparse held = make(link.rank(), step);
      agreement.keep_largest(channel, held, k);
      const std::scoped_lock lock(mutex);
      const auto known = agreement.kept_by();
      said[static_cast<std::size_t>(step * ranks + link.rank())].assign(known.begin(),
                                                                        known.end());
      for (std::size_t i = 0; i < held.size(); ++i)
        kept[static_cast<std::size_t>(step)].push_back(
            {std::abs(held.value[i]), link.rank(), held.index[i]});
    }
  });
  for (int step = 0; step < steps; ++step) {
    std::vector<Held> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const Sparse held = make(rank, step);
      for (std::size_t i = 0; i < held.size(); ++i)
        all.push_back({std::abs(held.value[i]), rank, held.index[i]});
    }
    std::sort(all.begin(), all.end());
    all.resize(std::min(all.size(), k));
    std::vector<Held>& got = kept[static_cast<std::size_t>(step)];
    std::sort(got.begin(), got.end());
    std::vector<std::uint64_t> count(
        GlobalTopK::at_once(ranks) ? static_cast<std::size_t>(ranks) : 0);
    if (!count.empty())
      for (const Held& each : got) ++count[static_cast<std::size_t>(each.rank)];
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(said[static_cast<std::size_t>(step * ranks + rank)], count)
          << "P=" << ranks << " k=" << k << " step " << step << " rank " << rank;
    ASSERT_EQ(got.size(), all.size()) << "P=" << ranks << " k=" << k << " step " << step;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(got[i].rank, all[i].rank)
          << "P=" << ranks << " k=" << k << " step " << step;
      ASSERT_EQ(got[i].index, all[i].index);
    }
  }
}

Sparse drawn(int rank, int step, float scale, bool integers) {
  core::Random random(static_cast<std::uint64_t>(step * 100 + rank));
  Sparse held;
  const std::uint64_t count = random.below(400);
  for (std::uint32_t i = 0; i < count; ++i) {
    const float value = scale * random.laplace();
    held.push_back(i, integers ? std::trunc(value) : value);
  }
  return held;
}

TEST(GlobalTopK, KeepsExactlyTheLargestOfAllRanks) {
  for (const int ranks : {1, 2, 3, 5, 8, 9})
    for (const std::size_t k : {0, 1, 7, 100, 700, 5000})
      hold(ranks, k, 4, [](int rank, int step) { return drawn(rank, step, 1, false); });
}

TEST(GlobalTopK, BreaksTiesByRankAndThenByPosition) {
  for (const int ranks : {1, 2, 3, 5, 8, 9})
    for (const std::size_t k : {1, 50, 333})
      hold(ranks, k, 4, [](int rank, int step) { return drawn(rank, step, 3, true); });
}

TEST(GlobalTopK, FollowsAnyJumpOfScale) {
  hold(3, 100, 9, [](int rank, int step) {
    constexpr float kScales[] = {1, 1e6F, 1e-6F, 1e-30F, 1e30F, 1e-42F, 1, 0, 5};
    return drawn(rank, step, kScales[step], false);
  });
}

// Of every kind of vector, and from each to the next, so that the bins of the first round
// are around a threshold that has nothing to do with this one.
TEST(GlobalTopK, KeepsExactlyTheLargestOfAwkwardVectors) {
  constexpr int kSteps = static_cast<int>(std::size(topknot::testing::kAwkward)) * 2;
  for (const int ranks : {1, 3, 9})
    for (const std::size_t k : {1, 300, 2500})
      hold(ranks, k, kSteps, [](int rank, int step) {
        const auto& kind = topknot::testing::kAwkward[step / 2];
        const std::size_t n = 1000;
        const std::vector<float> x =
            kind.vector(n, static_cast<std::uint64_t>(10 * step + rank));
        Sparse held;
        for (std::uint32_t i = 0; i < n; ++i) held.push_back(i, x[i]);
        return held;
      });
}

// So many that the rounds after the first leave some behind, and that equals meet in a counter.
TEST(GlobalTopK, KeepsExactlyTheLargestOfManyAwkwardValues) {
  constexpr int kSteps = static_cast<int>(std::size(topknot::testing::kAwkward));
  for (const std::size_t k : {5000, 20000})
    hold(2, k, kSteps, [](int rank, int step) {
      const std::size_t n = 15001;
      const std::vector<float> x = topknot::testing::kAwkward[step].vector(
          n, static_cast<std::uint64_t>(10 * step + rank));
      Sparse held;
      for (std::uint32_t i = 0; i < n; ++i) held.push_back(i, x[i]);
      return held;
    });
}

/// The messages of a rank in the last of some steps on drawn values, of which the lowest bits
/// are cleared.
std::uint64_t messages_of_a_step(int ranks, std::uint32_t cleared) {
  std::uint64_t messages = 0;
  run(ranks, [&](Transport& link) {
    auto traffic = std::make_shared<Traffic>();
    const auto metered = make_metered(link.channel(1), traffic);
    Params params;
    MessageChannel channel(*metered, "test", params);
    GlobalTopK agreement;
    for (std::uint64_t step = 0; step < 3; ++step) {
      core::Random random(100 * step + static_cast<std::uint64_t>(link.rank()));
      Sparse held;
      for (std::uint32_t i = 0; i < 60000; ++i)
        held.push_back(i, std::bit_cast<float>(
                              std::bit_cast<std::uint32_t>(random.laplace()) & ~cleared));
      const std::uint64_t before = traffic->messages();
      channel.begin(60000, 40000);
      agreement.keep_largest(channel, held, 40000);
      if (link.rank() == 0) messages = traffic->messages() - before;
    }
  });
  return messages;
}

TEST(GlobalTopK, TakesTwoMessagesToEachOtherRankFromStepToStepRoundedOrNot) {
  constexpr std::uint32_t kBelowBf16 = 0xFFFF;
  constexpr std::uint32_t kCrowds = 0x7FFFF;  // leaves thousands of equals
  for (const int ranks : {2, 4, 8})
    for (const std::uint32_t cleared : {0U, kBelowBf16, kCrowds})
      EXPECT_EQ(messages_of_a_step(ranks, cleared), 2 * static_cast<unsigned>(ranks - 1))
          << ranks << " ranks, " << cleared;
}

TEST(GlobalTopK, LetsEveryoneKnowOfANonfiniteSum) {
  run(5, [](Transport& link) {
    Params params;
    MessageChannel channel(link, "test", params);
    GlobalTopK agreement;
    channel.begin(10, 3);
    Sparse held;
    held.push_back(1, link.rank() == 3 ? std::numeric_limits<float>::infinity() : 1.0F);
    agreement.keep_largest(channel, held, 3);
    EXPECT_FALSE(channel.finite());
  });
}

// Rank 1 counts 1,000 in a low bin, and at last in a bin that has no width: 99 bins of 23 take
// more than the 2,205 patterns that are left then.
TEST(GlobalTopK, EndsTheSearchWhereAPeerCountsWhatCannotBe) {
  constexpr std::size_t kWanted = 800;
  run(2, [](Transport& link) {
    Params params;
    MessageChannel channel(link, "test", params);
    channel.begin(100000, kWanted);
    if (link.rank() == 0) {
      Sparse held;
      GlobalTopK().keep_largest(channel, held, kWanted);
      EXPECT_EQ(held.size(), 0U);
      return;
    }
    ASSERT_EQ(GlobalTopK::bins(kWanted, 2), 100U);
    channel.enter("agree");
    for (const auto& [bins, bin] :
         {std::pair{99U, 0U}, {100U, 1U}, {100U, 1U}, {100U, 99U}}) {
      std::vector<std::uint32_t> counts(bins);
      counts[bin] = 1000;
      std::vector<std::uint32_t> all;
      gather_at_once(channel, counts, std::vector<std::uint32_t>(2, bins), all);
    }
  });
}

}  // namespace
}  // namespace topknot::collective
