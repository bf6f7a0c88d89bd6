// SPDX-License-Identifier: Apache-2.0
//
// The engine's communication thread: what it hides, its order, and how its errors and the end of the
// engine reach the caller.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "engine/small_model.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/engine.h"
#include "topknot/error.h"

namespace topknot {
namespace {

using testing::model;
using testing::options;
using testing::residual;
using testing::run;
using testing::run_to_the_end;
using testing::step;

/// Passes everything on to another channel, and calls `on_wait` in wait(). Where that throws,
/// the channel behind it is destroyed, if it is owned.
class Watched final : public Transport {
 public:
  Watched(Transport& link, std::function<void()> on_wait, std::function<double()> clock,
          std::unique_ptr<Transport> owned = nullptr)
      : owned_(std::move(owned)),
        link_(link),
        rank_(link.rank()),
        size_(link.size()),
        on_wait_(std::move(on_wait)),
        clock_(std::move(clock)) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Pending send(int to, std::span<const std::byte> bytes) override {
    return link_.send(to, bytes);
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_.recv(from, into, limit);
  }
  void wait(Pending message) override {
    try {
      on_wait_();
    } catch (...) {
      owned_.reset();
      throw;
    }
    link_.wait(message);
  }
  bool allreduce(std::span<float>) override { return false; }
  double now() const noexcept override { return clock_(); }
  std::unique_ptr<Transport> channel(int id) override {
    auto made = link_.channel(id);
    Transport& link = *made;
    return std::make_unique<Watched>(link, on_wait_, clock_, std::move(made));
  }

 private:
  std::unique_ptr<Transport> owned_;
  Transport& link_;
  const int rank_;
  const int size_;
  std::function<void()> on_wait_;
  std::function<double()> clock_;
};

TEST(Engine, HidesCommunicationBehindTheCaller) {
  // The clock advances by one with every wait and never otherwise, so all times are exact.
  run(2, [](Transport& link) {
    std::atomic<int> waits = 0;
    const auto clock = [&] { return static_cast<double>(waits); };
    Watched watched(
        link, [&] { ++waits; }, clock);
    const Layout two = {{{"a", 0, {10, 10}}, {"b", 0, {10, 10}}}};
    Engine engine(watched, two, options("dense", 400));
    ASSERT_EQ(engine.buckets().size(), 2U);

    engine.begin();
    const StepReport late = engine.finish();
    ASSERT_GT(late.busy_seconds, 0);
    EXPECT_EQ(late.exposed_seconds, late.busy_seconds);
    EXPECT_EQ(late.overlap, 0);

    const int target = waits + static_cast<int>(late.buckets[0].seconds);
    engine.begin();
    engine.ready(1);
    // Backward of "a", for as long as it takes to reduce "b".
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waits < target && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
    ASSERT_EQ(waits, target) << "no bucket set out before finish()";
    engine.ready(0);
    while (waits < target + 1) std::this_thread::yield();
    const StepReport report = engine.finish();
    EXPECT_LT(report.exposed_seconds, report.buckets[1].seconds);
    EXPECT_GE(report.overlap, 0.5);
    EXPECT_LE(report.buckets[0].ready, report.buckets[0].start);
    EXPECT_GE(report.buckets[1].start,
              report.buckets[0].start + report.buckets[0].seconds);
    EXPECT_EQ(report.seconds, report.busy_seconds);
  });
}

TEST(Engine, LetsNoBucketOvertake) {
  run(1, [](Transport& link) {
    Engine engine(link, model(), options("knot"));
    engine.begin();
    for (const std::size_t p : {0, 1, 2, 3, 5}) engine.ready(p);
    // All but the first bucket are complete, and none of them has been touched.
    std::ranges::fill(engine.gradient(4), 1.0F);
    engine.ready(4);
    const StepReport report = engine.finish();
    for (std::size_t b = 1; b < report.buckets.size(); ++b) {
      EXPECT_LT(report.buckets[b].ready, report.buckets[0].ready);
      EXPECT_GE(report.buckets[b].start, report.buckets[b - 1].start);
    }
  });
}

TEST(Engine, ThrowsTheErrorOfTheCommunicationThreadInFinish) {
  const auto errors = run_to_the_end(3, [](Transport& link) {
    int left = 12;
    Watched watched(
        link,
        [&] {
          if (link.rank() == 1 && --left == 0) throw LinkError(2, "the cable is cut");
        },
        [&] { return link.now(); });
    Engine engine(watched, model(), options("knot"));
    try {
      for (std::uint64_t number = 0;; ++number) step(engine, link.rank(), number);
    } catch (const LinkError&) {
      EXPECT_EQ(residual(engine, "fc.weight").size(), 400U);  // it can be saved
      EXPECT_THROW(engine.begin(), LinkError);
      throw;
    }
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), LinkError);
  }
}

// Rank 0 leaves, rank 1 fails, and rank 2 waits for both: it gets an error, keeps its
// residual, and does not hang.
TEST(Engine, EndsInTheMiddleOfAStep) {
  LinkOptions short_wait;
  short_wait.timeout = 5;
  const auto errors = run_to_the_end(
      3,
      [](Transport& link) {
        Engine engine(link, model(), options("oktopk"));
        step(engine, link.rank(), 0);
        const std::vector<float> before = residual(engine, "conv1.weight");
        ASSERT_EQ(before.size(), 216U);
        engine.begin();
        for (std::size_t p = 6; p-- > 0;)
          if (link.rank() == 0 || p > 2) engine.ready(p);
        if (link.rank() == 1) throw std::runtime_error("backward failed");
        if (link.rank() != 2) return;
        try {
          engine.finish();
          FAIL() << "rank 2 did not notice";
        } catch (const LinkError& error) {
          EXPECT_NE(error.peer(), 2);
          EXPECT_EQ(residual(engine, "conv1.weight"), before);
          throw;
        }
      },
      short_wait);
  EXPECT_FALSE(errors[0]);
  EXPECT_REFUSAL(std::rethrow_exception(errors[1]), std::runtime_error,
                 "backward failed");
  ASSERT_TRUE(errors[2]);
  EXPECT_THROW(std::rethrow_exception(errors[2]), LinkError);
}

}  // namespace
}  // namespace topknot
