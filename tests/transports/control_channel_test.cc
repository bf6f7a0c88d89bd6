// SPDX-License-Identifier: Apache-2.0
#include "transports/control_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "core/hash.h"
#include "ranks.h"
#include "topknot/error.h"
#include "transports/control_message.h"

namespace topknot {
namespace {

using testing::run;
using testing::run_to_the_end;
using Bytes = ControlChannel::Bytes;

constexpr int kMostRanks = 9;

/// As many bytes as no other rank has, one rank none.
Bytes own_bytes(int rank, int salt = 0) {
  return Bytes(static_cast<std::size_t>(7 * rank), static_cast<std::byte>(rank + salt));
}

/// The type, the peer of a LinkError and the sentence.
std::string told_by(const std::exception_ptr& error) {
  if (!error) return "nothing";
  try {
    std::rethrow_exception(error);
  } catch (const DisagreementError& e) {
    return "DisagreementError " + std::to_string(e.peer()) + ": " + e.what();
  } catch (const OverlongError& e) {
    return "OverlongError " + std::to_string(e.peer()) + ": " + e.what();
  } catch (const LinkError& e) {
    return "LinkError " + std::to_string(e.peer()) + ": " + e.what();
  } catch (const ConfigError& e) {
    return std::string("ConfigError: ") + e.what();
  } catch (const NoCheckpointError& e) {
    return std::string("NoCheckpointError: ") + e.what();
  } catch (const ContractError& e) {
    return std::string("ContractError: ") + e.what();
  } catch (const StorageError& e) {
    return std::string("StorageError: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("exception: ") + e.what();
  }
}

/// What every rank threw, which must be the same.
std::string told_by_all(int ranks,
                        const std::function<void(ControlChannel&)>& rank_main) {
  std::set<std::string> told;
  for (const std::exception_ptr& error : run_to_the_end(ranks, [&](Transport& link) {
         ControlChannel control(link);
         rank_main(control);
       }))
    told.insert(told_by(error));
  EXPECT_EQ(told.size(), 1u) << *told.begin() << "\n" << *told.rbegin();
  return *told.begin();
}

TEST(ControlChannel, GathersMessagesOfUnevenLengthOnEveryRank) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    run(ranks, [&](Transport& link) {
      ControlChannel control(link, 3);
      for (int round = 0; round < 3; ++round) {
        const auto all = control.gather_bytes(own_bytes(link.rank(), round));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(all[static_cast<std::size_t>(rank)], own_bytes(rank, round));
      }
    });
}

TEST(ControlChannel, GathersAtRank0AndNowhereElse) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    run(ranks, [&](Transport& link) {
      ControlChannel control(link);
      const std::vector<std::uint16_t> mine(static_cast<std::size_t>(link.rank()), 9);
      const auto all = control.gather_at_0(mine, 9);
      ASSERT_EQ(all.size(), link.rank() == 0 ? static_cast<std::size_t>(ranks) : 0u);
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        EXPECT_EQ(all[rank], std::vector<std::uint16_t>(rank, 9));
    });
}

TEST(ControlChannel, BroadcastsFromEveryRoot) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    run(ranks, [&](Transport& link) {
      ControlChannel control(link);
      for (int root = 0; root < ranks; ++root)
        EXPECT_EQ(control.broadcast(root, own_bytes(link.rank())), own_bytes(root));
    });
}

TEST(ControlChannel, LetsNobodyLeaveABarrierBeforeEveryoneHasCome) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::atomic<int> came = 0;
    run(ranks, [&](Transport& link) {
      ControlChannel control(link);
      for (int round = 1; round <= 3; ++round) {
        ++came;
        control.barrier();
        EXPECT_GE(came, round * ranks);
      }
    });
  }
}

TEST(ControlChannel, SumsInRankOrderWithTheSameBitsOnAllRanks) {
  const auto value = [](int rank) { return rank % 2 == 0 ? 1e300 : 1.0 / (3 + rank); };
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    run(ranks, [&](Transport& link) {
      ControlChannel control(link);
      double expected = 0;
      float mean = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        expected += value(rank);
        mean += 1.0F / static_cast<float>(3 + rank);
      }
      EXPECT_EQ(control.sum({value(link.rank()), 2}),
                (std::vector<double>{expected, 2.0 * ranks}));
      std::vector<float> x(5, 1.0F / static_cast<float>(3 + link.rank()));
      control.average(x);
      EXPECT_EQ(
          x, std::vector<float>(5, ranks == 1 ? mean : mean / static_cast<float>(ranks)));
    });
}

TEST(ControlChannel, ReturnsWhatRank0ConcludedFromEveryTask) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    run(ranks, [&](Transport& link) {
      ControlChannel control(link);
      const Bytes sum = control.all_or_none(
          [&] { return ControlChannel::bytes_of(link.rank()); },
          [&](const std::vector<Bytes>& all) {
            int total = 0;
            for (int rank = 0; rank < ranks; ++rank)
              total += control.value_in<int>(all[static_cast<std::size_t>(rank)], rank);
            return ControlChannel::bytes_of(total);
          },
          [] { ADD_FAILURE() << "nothing failed"; });
      EXPECT_EQ(control.value_in<int>(sum, 0), ranks * (ranks - 1) / 2);
      EXPECT_EQ(ControlChannel::text_in(control.from_rank_0([&] {
                  EXPECT_EQ(link.rank(), 0);
                  return ControlChannel::bytes_of_text("step-7");
                })),
                "step-7");
    });
}

TEST(ControlChannel, ThrowsTheErrorOfTheLowestRankThatFailedOnAllRanks) {
  const std::string last = "Rank " + std::to_string(kMostRanks - 1);
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    for (int bad = 0; bad < ranks; ++bad) {
      std::atomic<int> undone = 0;
      const auto fail_with = [&](auto error) {
        return told_by_all(ranks, [&](ControlChannel& control) {
          control.all_or_none(
              [&]() -> Bytes {
                if (control.rank() >= bad) throw error;
                return {};
              },
              [](const auto&) {
                ADD_FAILURE() << "a task failed";
                return Bytes();
              },
              [&] { undone += control.rank() == 0 ? 1 : 100; });
        });
      };
      const std::string rank = "Rank " + std::to_string(bad);
      EXPECT_EQ(fail_with(ConfigError("No.")), "ConfigError: " + rank + ": No.");
      EXPECT_EQ(fail_with(StorageError("Full.")), "StorageError: " + rank + ": Full.");
      EXPECT_EQ(fail_with(DataError("Cut.")), "StorageError: " + rank + ": Cut.");
      EXPECT_EQ(fail_with(ContractError("Bug.")), "ContractError: " + rank + ": Bug.");
      EXPECT_EQ(fail_with(NoCheckpointError("None.")),
                "NoCheckpointError: " + rank + ": None.");
      EXPECT_EQ(undone, 5);
    }
}

TEST(ControlChannel, ThrowsTheErrorOfRank0AsItIs) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::atomic<int> undone = 0;
    EXPECT_EQ(told_by_all(ranks,
                          [&](ControlChannel& control) {
                            control.all_or_none(
                                [] { return Bytes(); },
                                [](const auto&) -> Bytes { throw StorageError("Full."); },
                                [&] { ++undone; });
                          }),
              "StorageError: Full.");
    EXPECT_EQ(undone, 1);
    EXPECT_EQ(told_by_all(ranks,
                          [](ControlChannel& control) {
                            control.on_rank_0([] { throw ConfigError("No."); });
                          }),
              "ConfigError: No.");
  }
}

TEST(ControlChannel, CanBeUsedAfterATaskFailed) {
  run(4, [](Transport& link) {
    ControlChannel control(link);
    EXPECT_THROW(control.all_or_none([&] {
      if (link.rank() == 2) throw StorageError("Full.");
    }),
                 StorageError);
    EXPECT_EQ(control.sum({1}), std::vector<double>{4});
  });
}

TEST(ControlChannel, NamesARankThatLeft) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    const auto errors = run_to_the_end(ranks, [](Transport& link) {
      ControlChannel control(link);
      if (link.rank() == 1) throw ConfigError("This rank leaves.");
      control.barrier();
    });
    for (std::size_t rank = 0; rank < errors.size(); ++rank)
      if (rank != 1) {
        EXPECT_EQ(told_by(errors[rank]), "LinkError 1: rank 1 has left the job");
      }
  }
}

TEST(ControlChannel, NamesARankAtAnotherOperation) {
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const auto errors = run_to_the_end(ranks, [](Transport& link) {
      ControlChannel control(link);
      if (link.rank() == 1)
        control.gather_bytes_at_0({});
      else
        control.all_or_none([] {});
    });
    EXPECT_EQ(
        told_by(errors[0]),
        "DisagreementError 1: operation is outcome of a task on rank 0 but gather at "
        "rank 0 on rank 1");
    for (int rank = 2; rank < ranks; ++rank)
      EXPECT_EQ(told_by(errors[static_cast<std::size_t>(rank)]), told_by(errors[0]));
  }
}

// Where a transport delivers a message twice, or one of an operation that is over.
TEST(ControlChannel, RefusesAMessageOfAnEarlierOperation) {
  for (const bool goes_on : {false, true}) {
    const auto errors = run_to_the_end(2, [&](Transport& link) {
      std::uint64_t count = 0;
      ControlChannel first(link, count);
      first.gather_bytes_at_0({});
      ControlChannel forgetful(link);
      ControlChannel next(link, count);
      if (link.rank() == 1)
        forgetful.gather_bytes_at_0({});
      else
        (goes_on ? next : first).gather_bytes_at_0({});
    });
    EXPECT_EQ(told_by(errors[0]),
              "DisagreementError 1: operation is number 1 on rank 0 but number 0 on rank "
              "1");
  }
}

TEST(ControlChannel, RefusesValuesOfAnotherNumberOnAllRanks) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks)
    EXPECT_EQ(told_by_all(ranks,
                          [&](ControlChannel& control) {
                            control.sum(std::vector<double>(control.rank() == 1 ? 3 : 2));
                          }),
              "DisagreementError 1: length of a gather is 16 bytes on rank 0 but 24 on "
              "rank 1");
}

/// What rank 0 says of the bytes that rank 1 sends instead of a control message.
std::string said_of(const Bytes& bytes) {
  return told_by(run_to_the_end(2, [&](Transport& link) {
    if (link.rank() == 1) return link.wait(link.send(0, bytes));
    ControlChannel(link).gather_bytes_at_0({}, 100);
  })[0]);
}

/// The message with the checksum that its other bytes ask for.
Bytes sealed(Bytes message) {
  const std::uint64_t checksum = core::hash(std::span(message).subspan(8));
  std::memcpy(message.data(), &checksum, sizeof checksum);
  return message;
}

TEST(ControlChannel, RefusesAMessageOfTheWrongLength) {
  // What rank 1 sends for the parts {1, 2, 3}.
  Bytes whole;
  run(2, [&](Transport& link) {
    if (link.rank() == 0) return link.wait(link.recv(1, whole, 1000));
    ControlChannel(link).gather_bytes_at_0(Bytes(3));
  });
  EXPECT_EQ(said_of(whole), "nothing");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(said_of(length < 24 ? cut : sealed(cut)),
              "LinkError 1: Rank 1 sent a control message of " + std::to_string(length) +
                  " bytes that cannot be read (gather at rank 0).");
  }
  Bytes longer = whole;
  longer.push_back({});
  EXPECT_NE(said_of(sealed(longer)).find("36 bytes that cannot be read"),
            std::string::npos);
  Bytes endless = whole;
  for (std::size_t i = 24; i < 32; ++i) endless[i] = std::byte{0xFF};
  EXPECT_NE(said_of(sealed(endless)).find("cannot be read"), std::string::npos);
  EXPECT_NE(said_of(Bytes(133)).find("OverlongError 1"), std::string::npos);
}

TEST(ControlChannel, RefusesLengthsThatAddUpOnlyWhenTheyOverflow) {
  using namespace transports;
  const ControlStamp stamp{ControlOperation::gather, 5};
  Bytes message = pack_control(stamp, std::vector<Bytes>{Bytes(3), Bytes(4)});
  EXPECT_EQ(unpack_control(message, stamp, 2, 0, 1).size(), 2u);
  const std::uint64_t lengths[] = {~std::uint64_t{0}, 8};
  std::memcpy(message.data() + 24, lengths, sizeof lengths);
  EXPECT_THROW(unpack_control(sealed(message), stamp, 2, 0, 1), LinkError);
}

TEST(ControlChannel, FindsEveryBitThatTurned) {
  using namespace transports;
  const ControlStamp stamp{ControlOperation::gather, 5};
  const Bytes whole = pack_control(stamp, std::vector<Bytes>{Bytes(3), Bytes(4)});
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes turned = whole;
    turned[bit / 8] ^= std::byte{1} << (bit % 8);
    std::string said = "nothing";
    try {
      unpack_control(turned, stamp, 2, /*from=*/6, /*rank=*/5);
    } catch (const DisagreementError& error) {
      said = "a disagreement";
    } catch (const LinkError& error) {
      EXPECT_EQ(error.peer(), 6);
      said = error.what();
    }
    EXPECT_EQ(
        said,
        "A control message of 47 bytes was damaged on its way from rank 6 to rank 5 "
        "(gather).")
        << "bit " << bit;
  }
}

TEST(ControlChannel, RefusesAValueOfTheWrongLength) {
  EXPECT_EQ(told_by_all(3,
                        [](ControlChannel& control) {
                          control.value_in<double>(control.broadcast(2, Bytes(5)), 2);
                        }),
            "LinkError 2: Rank 2 sent 5 bytes where 8 were expected.");
  const auto errors = run_to_the_end(2, [](Transport& link) {
    ControlChannel control(link);
    if (link.rank() == 1)
      control.gather_bytes_at_0(Bytes(9));
    else
      control.gather_at_0(std::vector<double>(1), 2);
  });
  EXPECT_EQ(told_by(errors[0]),
            "LinkError 1: Rank 1 sent 9 bytes where 8 were expected.");
}

}  // namespace
}  // namespace topknot
