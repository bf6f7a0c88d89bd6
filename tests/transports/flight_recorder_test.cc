// SPDX-License-Identifier: Apache-2.0
#include "transports/flight_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "failures.h"
#include "ranks.h"
#include "topknot/error.h"

namespace topknot::testing {
namespace {

using What = FlightRecord::What;

std::vector<FlightRecord::Operation> in(const FlightRecord& record) {
  FlightRecord::Operations operations;
  const std::size_t count = record.read(operations);
  return {operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(FlightRecord, KeepsTheLastOperationsInTheirOrder) {
  FlightRecord record;
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::uint64_t kept = std::min<std::uint64_t>(number, FlightRecord::kLength);
    const auto operations = in(record);
    ASSERT_EQ(operations.size(), kept);
    for (std::size_t i = 0; i < operations.size(); ++i)
      ASSERT_EQ(operations[i].bytes, number - kept + i);
    FlightRecord::Operation next;
    next.bytes = number;
    record.add(next);
  }
}

TEST(FlightRecord, MixesNoTwoOperationsHoweverManyThreadsAdd) {
  FlightRecord record;
  std::atomic<bool> over = false;
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 3; ++writer)
    writers.emplace_back([&, writer] {
      for (std::uint64_t i = 0; !over; ++i) {
        const std::uint64_t value = 3 * i + writer;
        FlightRecord::Operation one;
        one.microseconds = one.bytes = one.fingerprint = value;
        one.step = static_cast<std::uint32_t>(value);
        record.add(one);
      }
    });
  while (in(record).size() < FlightRecord::kLength / 2) std::this_thread::yield();
  for (int i = 0; i < 5000; ++i)
    for (const FlightRecord::Operation& one : in(record)) {
      ASSERT_EQ(one.bytes, one.microseconds);
      ASSERT_EQ(one.bytes, one.fingerprint);
      ASSERT_EQ(one.step, static_cast<std::uint32_t>(one.bytes));
    }
  over = true;
  for (std::thread& writer : writers) writer.join();
}

TEST(FlightRecorder, SaysWhichStepAndPhaseAMessageWasOfAndWhoWaited) {
  std::vector<FlightRecord> records(2);
  run(2, [&](Transport& link) {
    const auto recorded =
        make_recorded(link, records[static_cast<std::size_t>(link.rank())]);
    const auto channel = recorded->channel(7);  // further channels are recorded, too
    reduce_steps(*channel, "topka", 50, 3);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto operations = in(records[static_cast<std::size_t>(rank)]);
    ASSERT_EQ(operations.size(), 4U * 3) << "of each step: send, two waits, received";
    for (std::size_t i = 0; i < operations.size(); ++i) {
      EXPECT_EQ(operations[i].peer, 1 - rank);
      EXPECT_EQ(operations[i].channel, 1U);
      EXPECT_EQ(operations[i].step, 1 + i / 4);
      EXPECT_EQ(operations[i].phase, 1);
      EXPECT_NE(operations[i].fingerprint, 0U);
      const bool has_bytes =
          operations[i].what == What::send || operations[i].what == What::received;
      EXPECT_EQ(operations[i].bytes > 0, has_bytes);
      if (i > 0) {
        EXPECT_GE(operations[i].microseconds, operations[i - 1].microseconds);
      }
    }
  }
}

TEST(FlightRecorder, EndsWithTheWaitThatFailed) {
  FlightRecord record;
  run_to_the_end(2,
                 [&](Transport& link) {
                   if (link.rank() == 1) return;
                   std::vector<std::byte> into;
                   const auto recorded = make_recorded(link, record);
                   recorded->wait(recorded->recv(1, into, 8));
                 },
                 {.timeout = 0.2});
  const auto operations = in(record);
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].what, What::wait);
  EXPECT_EQ(operations[0].peer, 1);
  EXPECT_EQ(operations[0].step, 0U) << "of no collective";
}

}  // namespace
}  // namespace topknot::testing
