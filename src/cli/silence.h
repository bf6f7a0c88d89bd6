// SPDX-License-Identifier: Apache-2.0
//
// A program that is silent looks dead. A Silence calls somebody who can say what it is doing: first
// after a second and a half without a word, and from then on less and less often.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace topknot::cli {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  struct Pace {
    std::chrono::milliseconds patience{1500};
    double growth =
        2;  ///< each time the patience is so many times the last; 1: stays the same
  };

  /// `speak` is called by a thread of the object's own; it returns whether it has said anything.
  Silence(std::function<bool()> speak, Pace pace);
  /// Waits for that thread.
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  /// Something was said or done otherwise: the wait begins anew, as long as it has become.
  void broken();
  /// Something else begins: the next wait is as long as the first was.
  void reset();

 private:
  void run();

  const std::function<bool()> speak_;
  const Pace pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point spoken_ = Clock::now();
  std::chrono::duration<double> patience_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace topknot::cli
