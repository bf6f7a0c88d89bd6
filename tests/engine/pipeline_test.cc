// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "topknot/error.h"

namespace topknot::engine {
namespace {

TEST(Pipeline, RunsTasksInOrderOnOneThreadOfItsOwn) {
  Pipeline pipeline;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i)
      pipeline.submit([&, i] {
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
      });
    pipeline.drain();
    ASSERT_EQ(order.size(), 200U);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    order.clear();
  }
  for (const std::thread::id id : threads) EXPECT_EQ(id, threads.front());
  EXPECT_NE(threads.front(), std::this_thread::get_id());
}

TEST(Pipeline, DoesNotBlockTheSubmitter) {
  Pipeline pipeline;
  std::promise<void> gate;
  std::future<void> open = gate.get_future();
  pipeline.submit([&] { open.wait(); });
  std::atomic<bool> ran = false;
  pipeline.submit([&] { ran = true; });
  EXPECT_FALSE(ran);
  gate.set_value();
  pipeline.drain();
  EXPECT_TRUE(ran);
}

TEST(Pipeline, TakesTasksFromATask) {
  Pipeline pipeline;
  std::promise<int> result;
  pipeline.submit([&] { pipeline.submit([&] { result.set_value(7); }); });
  EXPECT_EQ(result.get_future().get(), 7);
}

TEST(Pipeline, RethrowsAnErrorEveryTimeAndRunsNothingBehindIt) {
  Pipeline pipeline;
  std::promise<void> gate;
  std::future<void> open = gate.get_future();
  std::atomic<int> ran = 0;
  pipeline.submit([&] {
    open.wait();
    throw std::runtime_error("broken");
  });
  pipeline.submit([&] { ++ran; });
  gate.set_value();
  EXPECT_THROW(pipeline.drain(), std::runtime_error);
  pipeline.submit([&] { ++ran; });
  EXPECT_THROW(pipeline.drain(), std::runtime_error);
  EXPECT_EQ(ran, 0);
}

TEST(Pipeline, DestroysTasksBehindAnErrorSoThatNoCallerWaitsForThem) {
  Pipeline pipeline;
  auto promise = std::make_shared<std::promise<void>>();
  std::future<void> future = promise->get_future();
  std::promise<void> gate;
  pipeline.submit([open = gate.get_future().share()] {
    open.wait();
    throw std::runtime_error("broken");
  });
  pipeline.submit([promise = std::move(promise)] { promise->set_value(); });
  gate.set_value();
  EXPECT_THROW(future.get(), std::future_error);
}

TEST(Pipeline, RefusesToWaitForItself) {
  Pipeline pipeline;
  pipeline.submit([&] { pipeline.drain(); });
  EXPECT_THROW(pipeline.drain(), ContractError);
}

TEST(Pipeline, EndsWithTheTaskUnderWayAndDropsTheRest) {
  std::promise<void> started;
  std::atomic<bool> done = false;
  std::atomic<int> ran = 0;
  std::promise<void> gate;
  {
    Pipeline pipeline;
    pipeline.submit([&, open = gate.get_future().share()] {
      started.set_value();
      open.wait();
      done = true;
    });
    // Held by the last task in the queue: it is freed when the destructor has begun.
    struct Opener {
      std::promise<void>& gate;
      ~Opener() { gate.set_value(); }
    };
    pipeline.submit([&, opens = std::make_shared<Opener>(gate)] { ++ran; });
    started.get_future().wait();
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(ran, 0);
}

TEST(Pipeline, EndsWithoutAnyTaskAndAfterAnError) {
  std::atomic<int> ran = 0;
  for (int i = 0; i < 50; ++i) {
    Pipeline idle;
    Pipeline broken;
    broken.submit([] { throw std::runtime_error("broken"); });
    broken.submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 0) << "something ran behind an error";
}

}  // namespace
}  // namespace topknot::engine
