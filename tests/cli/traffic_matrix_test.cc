// SPDX-License-Identifier: Apache-2.0
#include "cli/traffic_matrix.h"

#include <gtest/gtest.h>

#include <thread>

namespace topknot::cli {
namespace {

TEST(TrafficMatrix, HasARowForEachRank) {
  auto links = make_inproc(3);
  TrafficMatrix all;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Traffic mine;
      mine.bytes_to = {1, 2, 3};
      mine.bytes_to[rank] = 10 * rank;
      mine.messages_to = {0, rank, 0};
      mine.wait_seconds_for = {0.5, 0, 0};
      const TrafficMatrix gathered = gather_traffic(*links[rank], mine, 4);
      if (rank == 0)
        all = gathered;
      else
        EXPECT_TRUE(gathered.bytes.empty());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.steps, 4u);
  EXPECT_EQ(all.bytes,
            (std::vector<std::vector<double>>{{0, 2, 3}, {1, 10, 3}, {1, 2, 20}}));
  EXPECT_EQ(all.messages[2][1], 2);
  EXPECT_EQ(all.wait_seconds[1][0], 0.5);
  EXPECT_EQ(traffic_in(to_json(all)).bytes, all.bytes);
}

TEST(TrafficMatrix, OfDamagedJsonIsEmpty) {
  for (const char* text :
       {"{}", R"({"steps": 3, "bytes": 7})",
        R"({"steps": 0, "bytes": [[0]], "messages": [[0]], "wait_seconds": [[0]]})",
        R"({"steps": 1, "bytes": [[0, 1]], "messages": [[0]], "wait_seconds": [[0]]})"})
    EXPECT_TRUE(traffic_in(nlohmann::ordered_json::parse(text)).bytes.empty()) << text;
}

TEST(TrafficMatrix, NamesTheBusiestAndTheOneWhoWaits) {
  TrafficMatrix matrix;
  EXPECT_EQ(describe_imbalance(matrix), "");
  EXPECT_EQ(describe_waits(matrix), "");
  matrix.steps = 10;
  matrix.bytes = {{0, 100}, {300, 0}};
  matrix.wait_seconds = {{0, 0.02}, {0.01, 0}};
  EXPECT_EQ(describe_imbalance(matrix), "rank 1 sent most, 1.50 times the mean");
  EXPECT_EQ(describe_waits(matrix),
            "rank 0 waited longest, most of it for rank 1: 2.00 of 2.00 ms a step");
}

}  // namespace
}  // namespace topknot::cli
