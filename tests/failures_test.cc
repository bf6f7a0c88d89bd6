// SPDX-License-Identifier: Apache-2.0
//
// Ranks that stop and ranks that disagree, in every collective, on threads.
#include "failures.h"

#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <mutex>

#include "core/random.h"
#include "ranks.h"

namespace topknot::testing {
namespace {

// A rank that computes for longer than this is taken for lost, as a sanitizer makes it.
#ifdef TOPKNOT_SANITIZED
constexpr double kTimeout = 4;
#else
constexpr double kTimeout = 1;
#endif

constexpr int kRanks = 4;

struct Said {
  int peer = -1;
  bool disagreement = false;
  std::string sentence = "nothing";
};

Said said_by(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const LinkError& link) {
    return {link.peer(), dynamic_cast<const DisagreementError*>(&link) != nullptr,
            link.what()};
  } catch (const std::exception& other) {
    return {-1, false, other.what()};
  }
  return {};
}

/// What each rank says when `stopped` takes no further part from its `left`-th wait on.
std::vector<Said> stop(const std::string& collective, int stopped, int left) {
  std::latch others_are_done(kRanks - 1);
  const auto errors = run_to_the_end(kRanks,
                                     [&](Transport& link) {
                                       if (link.rank() == stopped) {
                                         Stopping stopping(link, left, [&] {
                                           others_are_done.wait();
                                           throw Error("stopped");
                                         });
                                         reduce_steps(stopping, collective, 50, 100);
                                         return;
                                       }
                                       struct Done {
                                         std::latch& latch;
                                         ~Done() { latch.count_down(); }
                                       } const done{others_are_done};
                                       reduce_steps(link, collective, 50, 100);
                                     },
                                     {.timeout = kTimeout});
  std::vector<Said> all;
  for (const auto& error : errors) all.push_back(said_by(error));
  return all;
}

class EveryCollective : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryCollective, LetsAllRanksNameTheOneThatStopped) {
  struct Trial {
    int stopped;
    int left;
    std::future<std::vector<Said>> said;
  };
  std::vector<Trial> trials;
  for (int stopped = 0; stopped < kRanks; ++stopped)
    for (const int left : {1, 4})
      trials.push_back(
          {stopped, left, std::async(std::launch::async, [this, stopped, left] {
             return stop(GetParam(), stopped, left);
           })});
  for (Trial& trial : trials) {
    const std::vector<Said> said = trial.said.get();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == trial.stopped) continue;
      const Said& one = said[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.peer, trial.stopped)
          << "rank " << rank << ", wait " << trial.left << ": " << one.sentence;
      EXPECT_NE(one.sentence.find("silent"), std::string::npos) << one.sentence;
    }
  }
}

TEST_P(EveryCollective, LetsAllRanksSayThatTheKOfOneDiffers) {
  for (int odd = 0; odd < kRanks; ++odd)
    for (const std::size_t other_k : {200, 10}) {
      const auto errors = run_to_the_end(
          kRanks,
          [&](Transport& link) {
            reduce_steps(link, GetParam(), link.rank() == odd ? other_k : 50, 1);
          },
          {.timeout = 20});
      for (int rank = 0; rank < kRanks; ++rank) {
        const Said said = said_by(errors[static_cast<std::size_t>(rank)]);
        EXPECT_TRUE(said.disagreement) << "rank " << rank << ": " << said.sentence;
        EXPECT_NE(said.sentence.find("k is "), std::string::npos) << said.sentence;
        EXPECT_NE(said.sentence.find(std::to_string(other_k)), std::string::npos)
            << said.sentence;
        EXPECT_NE(said.sentence.find("50"), std::string::npos) << said.sentence;
      }
    }
}

// The message may have been made by a third rank: the one that passed it on is named, because
// it was whole when that rank received it.
TEST_P(EveryCollective, LetsAllRanksNameTheSenderOfAMessageThatWasDamaged) {
  core::Random random(11);
  for (int receiver = 0; receiver < kRanks; ++receiver)
    for (int left = 1; left <= 12; ++left) {
      Damaging::Plan plan{left, random.below(1 << 16)};
      const auto errors = run_to_the_end(
          kRanks,
          [&](Transport& link) {
            Damaging damaging(link, plan);
            reduce_steps(link.rank() == receiver ? damaging : link, GetParam(), 50, 100);
          },
          {.timeout = 20});
      for (int rank = 0; rank < kRanks; ++rank) {
        const Said said = said_by(errors[static_cast<std::size_t>(rank)]);
        EXPECT_EQ(said.peer, plan.sender) << "rank " << rank << ": " << said.sentence;
        EXPECT_FALSE(said.disagreement) << said.sentence;
      }
    }
}

// Where no rank ever reads what the odd one sent, it is only known who waits for whom.
TEST_P(EveryCollective, BlamesNobodyForLeavingWhenOneRunsAnother) {
  const std::string other = GetParam() == "topka" ? "dense" : "topka";
  const auto errors =
      run_to_the_end(kRanks,
                     [&](Transport& link) {
                       reduce_steps(link, link.rank() == 2 ? other : GetParam(), 50, 1);
                     },
                     {.timeout = kTimeout});
  for (const auto& error : errors) {
    const Said said = said_by(error);
    const bool differs = said.sentence.find("configuration is ") != std::string::npos;
    const bool circle = said.sentence.find("wait for each other") != std::string::npos;
    EXPECT_TRUE((said.disagreement && differs) || circle) << said.sentence;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryCollective,
                         ::testing::ValuesIn(all_collectives(kRanks)),
                         [](const auto& test) {
                           return test.param.substr(0, test.param.find(':'));
                         });

}  // namespace
}  // namespace topknot::testing
