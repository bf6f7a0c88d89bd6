// SPDX-License-Identifier: Apache-2.0
//
// The communication thread: tasks in the order they were handed in, one after the other, while
// whoever handed them in goes on. Ranks that hand in the same tasks in the same order meet in
// the same order, which is all that keeps several buckets from waiting for each other.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace topknot::engine {

class Pipeline {
 public:
  Pipeline();
  /// Waits for the task under way and drops those behind it.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Queues `task`; from any thread, a task's own among them. When a task throws, those
  /// behind it are destroyed without having run, and so is all that is handed in later: a
  /// task that others wait for catches for itself what it can meet with.
  void submit(std::function<void()> task);

  /// Waits until nothing is queued or under way. Rethrows what a task threw, this time and
  /// every later one. Throws ContractError when a task calls it, which would wait for itself.
  void drain();
  /// Whether nothing is queued or under way.
  bool idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable work_;  // there is a task, or no more will come
  std::condition_variable idle_;  // there is none, and none under way
  std::deque<std::function<void()>> tasks_;
  std::exception_ptr error_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace topknot::engine
