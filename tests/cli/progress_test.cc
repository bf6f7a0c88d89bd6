// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <gtest/gtest.h>

#include <atomic>

#include "cli/silence.h"

namespace topknot::cli {
namespace {

TEST(FittingLine, LeavesOutWholeWhatDoesNotFit) {
  EXPECT_EQ(fitting_line("job [###] 3/9", {"4 s left", "loss 0.1", "9 kB/step"}, 80),
            "job [###] 3/9  4 s left  loss 0.1  9 kB/step");
  EXPECT_EQ(fitting_line("job [###] 3/9", {"4 s left", "loss 0.1", "9 kB/step"}, 33),
            "job [###] 3/9  4 s left  loss 0.1");
  EXPECT_EQ(fitting_line("job [###] 3/9", {"4 s left", "loss 0.1"}, 32),
            "job [###] 3/9  4 s left");
  EXPECT_EQ(fitting_line("job [###] 3/9", {"", "loss 0.1"}, 80),
            "job [###] 3/9  loss 0.1");
  EXPECT_EQ(fitting_line("job [###] 3/9", {"loss"}, 5), "job [");
}

TEST(Silence, IsBrokenAgainAndAgainUntilTheEnd) {
  std::atomic<int> said = 0;
  {
    const Silence silence([&] { return ++said > 0; },
                          {.patience = std::chrono::milliseconds(1), .growth = 1});
    while (said < 3) std::this_thread::yield();
  }
  const int at_end = said;
  EXPECT_GE(at_end, 3);
  EXPECT_EQ(said, at_end);
}

TEST(Silence, WaitsWhereSomethingIsSaid) {
  std::atomic<int> said = 0;
  Silence silence([&] { return ++said > 0; },
                  {.patience = std::chrono::hours(1), .growth = 2});
  silence.broken();
  EXPECT_EQ(said, 0);
}

TEST(Silence, IsImpatientAgainWhenSomethingElseBegins) {
  std::atomic<int> said = 0;
  Silence silence([&] { return ++said > 0; },
                  {.patience = std::chrono::milliseconds(1), .growth = 1e6});
  while (said < 3) {  // each wait after the first would be a minute
    silence.reset();
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace topknot::cli
