// SPDX-License-Identifier: Apache-2.0
//
// The communication thread runs tasks one after the other, in the order of submission, while
// the submitter computes. All ranks submit the same tasks in the same order, so that no two
// buckets wait for each other.
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
  /// behind it are destroyed without having run, and so is every later one: a task that
  /// others wait for must catch its own errors.
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
