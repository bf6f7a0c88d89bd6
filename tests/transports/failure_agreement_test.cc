// SPDX-License-Identifier: Apache-2.0
#include "transports/failure_agreement.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace topknot::transports {
namespace {

using Clock = FailureAgreement::Clock;
using Bytes = FailureAgreement::Bytes;

constexpr double kTimeout = 10;

/// Ranks whose control messages arrive at once, but those to and from ranks that are stopped.
class Ranks {
 public:
  explicit Ranks(int size) : stopped_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank)
      agreements_.push_back(std::make_unique<FailureAgreement>(
          rank, size, kTimeout,
          FailureAgreement::Network{[this, rank](int to, const Bytes& message) {
                                      if (is_stopped(rank) || is_stopped(to)) return;
                                      ++messages_;
                                      if (rank == late_) {
                                        held_.emplace_back(to, message);
                                      } else {
                                        at(to).receive(rank, message);
                                      }
                                    },
                                    [this, rank] { ++woken_[rank]; }}));
  }

  FailureAgreement& at(int rank) { return *agreements_[static_cast<std::size_t>(rank)]; }
  void stop(int rank) { stopped_[static_cast<std::size_t>(rank)] = true; }
  bool is_stopped(int rank) const { return stopped_[static_cast<std::size_t>(rank)]; }
  /// What `rank` says from now on arrives when let_through() is called.
  void hold_back(int rank) { late_ = rank; }
  void let_through() {
    for (const auto& [to, message] : held_) at(to).receive(late_, message);
  }
  int messages() const { return messages_; }
  int woken(int rank) { return woken_[rank]; }

  /// `rank` waits for `peer` from now on.
  void wait(int rank, int peer) {
    waits_[rank] = std::make_unique<FailureAgreement::Wait>(at(rank), peer);
  }
  void end_wait(int rank) { waits_.erase(rank); }
  /// The same for a disk, for so many seconds at most, besides.
  void wait_for_disk(int rank, int peer, double limit) {
    disk_waits_[rank] = std::make_unique<FailureAgreement::Wait>(at(rank), peer, limit);
  }

  /// Lets `rank` look at its deadlines `seconds` after now.
  void check(int rank, double seconds) {
    at(rank).check(start_ + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(seconds)));
  }

 private:
  const Clock::time_point start_ = Clock::now();
  std::vector<bool> stopped_;
  int messages_ = 0;
  int late_ = -1;
  std::vector<std::pair<int, Bytes>> held_;
  std::map<int, int> woken_;
  std::vector<std::unique_ptr<FailureAgreement>> agreements_;
  std::map<int, std::unique_ptr<FailureAgreement::Wait>> waits_;
  std::map<int, std::unique_ptr<FailureAgreement::Wait>> disk_waits_;
};

TEST(FailureAgreement, IsSilentUntilADeadline) {
  Ranks ranks(3);
  ranks.wait(0, 1);
  ranks.check(0, 9);
  EXPECT_EQ(ranks.messages(), 0);
  EXPECT_FALSE(ranks.at(0).failed());
}

TEST(FailureAgreement, FollowsTheWaitsToARankThatDoesNotAnswer) {
  Ranks ranks(4);
  ranks.stop(2);
  ranks.wait(3, 2);
  ranks.wait(0, 3);
  ranks.wait(1, 0);
  ranks.check(1, 11);
  EXPECT_FALSE(ranks.at(1).failed()) << "the answer may still come";
  ranks.check(1, 12.5);
  for (const int rank : {0, 1, 3}) {
    ASSERT_TRUE(ranks.at(rank).failed()) << rank;
    EXPECT_EQ(ranks.at(rank).failure().peer, 2);
    EXPECT_EQ(ranks.at(rank).failure().sentence,
              "rank 2 has been silent for 10 s: rank 1 waits for rank 0, which waits for "
              "rank 3, which waits for rank 2");
    EXPECT_EQ(ranks.woken(rank), 1);
  }
}

TEST(FailureAgreement, FollowsTheWaitsToARankThatWaitsForNobody) {
  Ranks ranks(4);
  ranks.wait(3, 2);
  ranks.wait(1, 3);
  ranks.check(1, 11);  // all have answered, so there is nothing to wait for
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 2);
  EXPECT_FALSE(ranks.at(0).failure().disagreement);
}

TEST(FailureAgreement, LetsAWaitForADiskLastAsLongAsItMay) {
  Ranks ranks(3);
  ranks.wait_for_disk(0, 1, 50);
  ranks.check(0, 49);
  EXPECT_EQ(ranks.messages(), 0);
  ranks.check(0, 51);
  ASSERT_TRUE(ranks.at(2).failed());
  EXPECT_EQ(ranks.at(2).failure().sentence, "rank 1 has been silent for 50 s");
}

// Rank 2 stops while rank 3 writes. All others have waited for rank 0's disk, rank 0 for rank 3's.
TEST(FailureAgreement, IsNotMisledByRanksThatWaitForADiskToo) {
  Ranks ranks(4);
  ranks.wait_for_disk(1, 0, 50);
  ranks.wait_for_disk(0, 3, 50);
  ranks.stop(2);
  ranks.wait(0, 1);
  ranks.wait(1, 3);
  ranks.wait(3, 2);
  ranks.check(0, 11);
  EXPECT_FALSE(ranks.at(0).failed()) << "the answer may still come";
  ranks.check(0, 12.5);
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 2) << ranks.at(0).failure().sentence;
}

// Rank 0 stops when it has told rank 1, and not rank 2, that a checkpoint is written.
TEST(FailureAgreement, FollowsAWaitForADiskWhereARankHasNoOther) {
  Ranks ranks(3);
  ranks.stop(0);
  ranks.wait_for_disk(2, 0, 50);
  ranks.wait(1, 2);
  ranks.check(1, 11);
  ranks.check(1, 12.5);
  ASSERT_TRUE(ranks.at(2).failed());
  EXPECT_EQ(ranks.at(2).failure().peer, 0) << ranks.at(2).failure().sentence;
}

// Rank 2 computes for too long, while it waits for a disk beside that.
TEST(FailureAgreement, NamesTheRankThatTakesNoStepThoughItWaitsForADisk) {
  Ranks ranks(3);
  ranks.wait_for_disk(2, 0, 50);
  ranks.wait(0, 1);
  ranks.wait(1, 2);
  ranks.check(0, 11);
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 2);
  EXPECT_EQ(ranks.at(0).failure().sentence,
            "rank 2 has been silent for 10 s: rank 0 waits for rank 1, which waits for "
            "rank 2");
}

TEST(FailureAgreement, ForgetsAQuestionAboutAWaitThatEndedWell) {
  Ranks ranks(3);
  ranks.stop(1);
  ranks.stop(2);
  ranks.wait(0, 1);
  ranks.check(0, 11);
  ranks.end_wait(0);  // the message has come after all
  ranks.wait(0, 2);
  ranks.check(0, 13);
  EXPECT_FALSE(ranks.at(0).failed()) << "the new wait has been asked about just now";
}

TEST(FailureAgreement, BelievesNoAnswerToAnEarlierQuestion) {
  // Rank 1 once waited for rank 2 and said so. Now it is stopped, and rank 0 waits for it.
  Ranks ranks(3);
  ranks.wait(1, 2);
  ranks.wait(0, 1);
  ranks.stop(2);
  ranks.check(0, 11);
  ranks.end_wait(0);
  ranks.end_wait(1);
  ranks.stop(1);
  ranks.wait(0, 1);
  ranks.check(0, 12);
  ranks.check(0, 14);
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 1);
}

TEST(FailureAgreement, BelievesNoAnswerThatComesWhenAnotherQuestionIsAsked) {
  Ranks ranks(3);
  ranks.wait(1, 2);
  ranks.wait(0, 1);
  ranks.hold_back(1);
  ranks.check(0, 11);  // rank 1 says that it waits for rank 2
  ranks.end_wait(0);
  ranks.end_wait(1);
  ranks.stop(1);
  ranks.wait(0, 1);
  ranks.check(0, 12);
  ranks.let_through();
  ranks.check(0, 14);
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 1);
}

TEST(FailureAgreement, AnswersWithTheFailureThatTheAskingRankHasNotHeardOf) {
  Ranks ranks(4);
  ranks.at(2).fail({0, "rank 0 has left the job"}, /*tell=*/false);
  ranks.wait(3, 2);
  ranks.check(3, 11);
  ASSERT_TRUE(ranks.at(3).failed());
  EXPECT_EQ(ranks.at(3).failure().peer, 0) << "and not rank 2, which waits for nobody";
}

TEST(FailureAgreement, CallsACircleACircle) {
  Ranks ranks(4);
  ranks.wait(3, 1);
  ranks.wait(1, 2);
  ranks.wait(2, 1);
  ranks.check(3, 11);
  ASSERT_TRUE(ranks.at(3).failed());
  EXPECT_EQ(ranks.at(3).failure().peer, 1);
  EXPECT_NE(ranks.at(3).failure().sentence.find("wait for each other"),
            std::string::npos);
}

TEST(FailureAgreement, FindsWhoIsMissingFromWhatAllTakePartIn) {
  Ranks ranks(4);
  for (const int rank : {0, 1, 3}) ranks.wait(rank, FailureAgreement::kEveryone);
  ranks.stop(2);
  ranks.check(3, 11);
  ranks.check(3, 12.5);
  ASSERT_TRUE(ranks.at(0).failed());
  EXPECT_EQ(ranks.at(0).failure().peer, 2);
}

TEST(FailureAgreement, TellsOfADisagreementOnce) {
  Ranks ranks(3);
  ranks.at(0).fail(Failure::of(DisagreementError(1, "k is 5 on rank 0, 6 on rank 1")));
  ranks.at(2).fail({0, "rank 0 has left the job"});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THROW(ranks.at(rank).failure().raise(), DisagreementError);
    EXPECT_EQ(ranks.at(rank).failure().sentence, "k is 5 on rank 0, 6 on rank 1");
    EXPECT_EQ(ranks.woken(rank), 1);
  }
}

TEST(FailureAgreement, IgnoresWhatIsNoControlMessage) {
  Ranks ranks(2);
  for (std::size_t length = 0; length < 40; ++length)
    for (const unsigned byte : {0U, 2U, 3U, 7U, 255U}) {
      const Bytes noise(length, static_cast<std::byte>(byte));
      ranks.at(0).receive(1, noise);
      ranks.at(0).receive(-1, noise);
      ranks.at(0).receive(2, noise);
    }
  EXPECT_FALSE(ranks.at(0).failed());
}

TEST(FailureAgreement, IgnoresAMessageOfWhichABitHasTurned) {
  Bytes told;
  FailureAgreement first(0, 2, 1, {[&](int, Bytes message) { told = message; }, [] {}});
  first.fail({1, "rank 1 has gone"});
  ASSERT_FALSE(told.empty());
  Ranks ranks(2);
  for (std::size_t bit = 0; bit < 8 * told.size(); ++bit) {
    Bytes turned = told;
    turned[bit / 8] ^= std::byte{1} << (bit % 8);
    ranks.at(1).receive(0, turned);
    ASSERT_FALSE(ranks.at(1).failed()) << "bit " << bit;
  }
  ranks.at(1).receive(0, told);
  EXPECT_TRUE(ranks.at(1).failed());
}

TEST(FailureAgreement, CutsASentenceThatIsTooLong) {
  Ranks ranks(2);
  ranks.at(0).fail({1, std::string(100'000, 'x')});
  ASSERT_TRUE(ranks.at(1).failed());
  EXPECT_LE(ranks.at(1).failure().sentence.size(), FailureAgreement::kMostBytes);
}

}  // namespace
}  // namespace topknot::transports
