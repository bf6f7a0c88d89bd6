// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <latch>

#include "cli/flight_dump.h"
#include "cli/flight_merge.h"
#include "cli/folders.h"
#include "cli/launch.h"
#include "failures.h"
#include "refusal.h"
#include "topknot/error.h"
#include "transports/flight_file.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;
using test::read_text;
using test::ScratchFolder;
using topknot::testing::reduce_steps;

Launch launch_in(const ScratchFolder& folder) {
  Launch launch;
  launch.link.timeout = 0.5;
  launch.flight = folder.path().string();
  return launch;
}

/// Rank 2 of 4 takes three steps and then does nothing until the others have failed.
void stop_rank_2(const ScratchFolder& folder) {
  std::latch failed(3);
  EXPECT_THROW(run_threads(4, launch_in(folder),
                           [&](Transport& link) {
                             reduce_steps(link, "topka", 50, 3);
                             if (link.rank() == 2) return failed.wait();
                             try {
                               reduce_steps(link, "topka", 50, 1);
                             } catch (const LinkError&) {
                               failed.count_down();
                               throw;
                             }
                           }),
               LinkError);
}

TEST(Flight, NamesTheRankThatStopped) {
  const ScratchFolder folder;
  stop_rank_2(folder);
  const Flight flight = read_flight(folder.path());
  EXPECT_EQ(flight.ranks, 4);
  EXPECT_EQ(flight.dumps.size(), 3U);
  EXPECT_EQ(flight.dumps.count(2), 0U);
  EXPECT_EQ(first_divergence(flight),
            "All waits of ranks 0, 1 and 3 lead to rank 2, which left no dump: it "
            "stopped or died.");
  for (const auto& [rank, dump] : flight.dumps) {
    ASSERT_NE(dump.waits(), nullptr);
    EXPECT_NE(dump.error.find("rank 2 has been silent"), std::string::npos);
  }
}

// In the middle of a step some ranks are in the inner collective and others are not.
TEST(Flight, NamesTheRankThatStoppedInACollectiveWithinAnother) {
  const std::string collective = "hierarchical:group=2";
  for (const int left : {7, 12}) {
    const ScratchFolder folder;
    std::latch failed(3);
    const auto stopped = [&](Transport& link) {
      topknot::testing::Stopping stopping(link, left, [&] {
        failed.wait();
        throw Error("stopped");
      });
      reduce_steps(stopping, collective, 50, 100);
    };
    EXPECT_ANY_THROW(run_threads(4, launch_in(folder), [&](Transport& link) {
      if (link.rank() == 2) return stopped(link);
      try {
        reduce_steps(link, collective, 50, 100);
      } catch (const LinkError&) {
        failed.count_down();
        throw;
      }
    }));
    EXPECT_NE(
        first_divergence(read_flight(folder.path())).find(" lead to rank 2, which "),
        std::string::npos)
        << collective << ", wait " << left << ": "
        << first_divergence(read_flight(folder.path()));
  }
}

TEST(Flight, NamesWhatDiffers) {
  const ScratchFolder folder;
  EXPECT_THROW(run_threads(4, launch_in(folder),
                           [&](Transport& link) {
                             reduce_steps(link, "topka", link.rank() == 1 ? 200 : 50, 3);
                           }),
               DisagreementError);
  const std::string said = first_divergence(read_flight(folder.path()));
  EXPECT_NE(said.find("The ranks diverge in step 1 of channel "), std::string::npos)
      << said;
  EXPECT_NE(said.find(": k is 50 (low bits) on "), std::string::npos) << said;
  EXPECT_NE(said.find(", 200 (low bits) on rank 1."), std::string::npos) << said;
}

TEST(Flight, NamesAnotherCollective) {
  const ScratchFolder folder;
  EXPECT_THROW(run_threads(3, launch_in(folder),
                           [&](Transport& link) {
                             reduce_steps(link, link.rank() == 2 ? "gtopk" : "topka", 50,
                                          3);
                           }),
               LinkError);
  const std::string said = first_divergence(read_flight(folder.path()));
  EXPECT_NE(said.find("the configuration is one on "), std::string::npos) << said;
}

TEST(Flight, IsDumpedWhenASignalAsksForItAndTheRunGoesOn) {
  const ScratchFolder folder;
  run_threads(2, launch_in(folder), [&](Transport& link) {
    reduce_steps(link, "topka", 50, 3);
    if (link.rank() == 0) ::raise(SIGUSR2);
    reduce_steps(link, "topka", 50, 3);
  });
  const Flight flight = read_flight(folder.path());
  EXPECT_EQ(flight.dumps.size(), 2U);
  EXPECT_EQ(flight.dumps.at(0).error, "");
  EXPECT_FALSE(flight.dumps.at(0).operations.empty());
}

TEST(Flight, LeavesNothingWhereNothingFailed) {
  const ScratchFolder folder;
  stop_rank_2(folder);
  run_threads(4, launch_in(folder),
              [&](Transport& link) { reduce_steps(link, "topka", 50, 3); });
  EXPECT_TRUE(fs::is_empty(folder.path())) << "the dumps were of an earlier run";
}

TEST(Flight, LeavesNothingWhereTheDataWereBad) {
  const ScratchFolder folder;
  EXPECT_THROW(run_threads(1, launch_in(folder),
                           [](Transport&) { throw DataError("a file is missing"); }),
               DataError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Flight, ReadsWhatIsLeftOfATornDump) {
  const ScratchFolder folder;
  stop_rank_2(folder);
  const std::string file = flight_file(folder.path().string(), 1);
  const std::string whole = read_text(file);
  // Every length of the first lines, and some of the others.
  for (std::size_t length = 0; length < whole.size(); length += length < 400 ? 1 : 101) {
    std::ofstream(file) << whole.substr(0, length);
    const Flight flight = read_flight(folder.path());
    const std::size_t first_line = whole.find('\n');
    EXPECT_EQ(flight.dumps.count(1), length >= first_line ? 1U : 0U) << length;
    EXPECT_LE(flight.notes.size(), 1U);
    const std::string said = first_divergence(flight);
    EXPECT_NE(said.find("lead to rank 2"), std::string::npos) << length << ": " << said;
  }
  std::ofstream(file) << whole << "{\"what\":7}\n[]\nnot JSON\n";
  EXPECT_EQ(read_flight(folder.path()).notes.size(), 3U);
}

TEST(Flight, LeavesOutTheDumpsOfALargerJob) {
  const ScratchFolder folder;
  stop_rank_2(folder);
  std::ofstream(flight_file(folder.path().string(), 7))
      << R"({"rank":7,"ranks":8,"us":5,"error":"earlier"})"
      << "\n";
  const Flight flight = read_flight(folder.path());
  EXPECT_EQ(flight.ranks, 4);
  EXPECT_EQ(flight.notes,
            (std::vector<std::string>{
                "The dump of rank 7 is of a job of 8 ranks, and is left out."}));
}

TEST(Flight, SaysWhenThereIsNothingToRead) {
  const ScratchFolder folder;
  EXPECT_REFUSAL(read_flight(folder.path().string() + "/nowhere"), DataError,
                 "There is no folder " + folder.path().string() + "/nowhere.");
  EXPECT_REFUSAL(read_flight(folder.path()), DataError,
                 "There is no dump that can be read in " + folder.path().string() +
                     ": ranks leave flight-RANK.jsonl there when a run with `--out " +
                     folder.path().string() + "` fails, or when they get SIGUSR2.");
  std::ofstream(flight_file(folder.path().string(), 0))
      << R"({"rank":9,"ranks":4,"us":1})";
  EXPECT_THROW(read_flight(folder.path()), DataError);
}

TEST(Flight, CallsACircleACircle) {
  Flight flight;
  flight.ranks = 3;
  for (int rank = 0; rank < 3; ++rank) {
    FlightDump dump;
    dump.rank = rank;
    dump.ranks = 3;
    dump.microseconds = 1000000;
    dump.operations.push_back({.what = "wait", .peer = (rank + 1) % 3});
    flight.dumps[rank] = dump;
  }
  EXPECT_EQ(first_divergence(flight),
            "The ranks wait for each other in a circle: rank 0 waits for rank 1, which "
            "waits for rank 2, which waits for rank 0.");
  flight.dumps[0].blames = 2;
  flight.dumps[0].error = "rank 2 has been silent for 2 s";
  EXPECT_EQ(first_divergence(flight),
            "All waits of ranks 0 and 1 lead to rank 2, which was silent when they gave "
            "up: it was last outside any collective (channel 0).");
  flight.dumps[0].error = "ranks wait for each other for 2 s";
  EXPECT_NE(first_divergence(flight).find("in a circle"), std::string::npos);
  flight.dumps[0].error.clear();
  flight.dumps[0].blames = -1;
  for (auto& [rank, dump] : flight.dumps) dump.operations[0].microseconds = 1;
  EXPECT_EQ(first_divergence(flight),
            "No rank waits, and all that were dumped did the same.")
      << "no rank has failed, and none has waited for a second";
  for (auto& [rank, dump] : flight.dumps) dump.operations[0].microseconds = 0;
  flight.dumps[1].operations.push_back({.what = "received", .step = 4, .phase = 2});
  EXPECT_EQ(first_divergence(flight),
            "All waits of ranks 0 and 2 lead to rank 1, which waits for nobody: it was "
            "last in step 4, phase 2 of channel 0.");
}

}  // namespace
}  // namespace topknot::cli
