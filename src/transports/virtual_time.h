// SPDX-License-Identifier: Apache-2.0
//
// Ranks on a virtual clock. Each rank is a thread with a clock of its own, and one of them runs at
// a time: it has the baton. A rank runs until it blocks. Then the baton goes to what is next in
// virtual time: an event, which the thread that blocks handles itself, or another rank. What is at
// the same moment is in the order that the seed has drawn of the ranks, and what one rank has
// caused, in the order in which it did.
//
// A running rank may be ahead of events that are still to come. Nothing it does has effect at
// another rank but by events, and those are handled in the order of time.
#pragma once

#include <semaphore.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace topknot::transports {

/// Passes from thread to thread. std::binary_semaphore looks for a while before it sleeps, and the
/// many that look take the time of the one that works.
class Baton {
 public:
  Baton() { sem_init(&semaphore_, 0, 0); }
  ~Baton() { sem_destroy(&semaphore_); }
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  void acquire() {
    while (sem_wait(&semaphore_) != 0) {  // a signal came
    }
  }
  void release() { sem_post(&semaphore_); }

 private:
  sem_t semaphore_;
};

class VirtualTime {
 public:
  VirtualTime(int ranks, std::uint64_t seed);

  /// Runs `body` of each rank in a thread of its own, and returns when all have returned. Throws
  /// what the first of them threw, by its clock, and ConfigError where there cannot be so many
  /// threads.
  void run(const std::function<void(int rank)>& body);

  // ---- for the rank that has the baton, and for events

  double now(int rank) const { return rank_at(rank).clock; }
  /// The clock of the rank that has the baton.
  double now() const { return now(running_); }
  /// Moves the clock of a rank that is running.
  void advance(int rank, double seconds);
  /// At `time`, which is not in the past, `event` happens, caused by `rank`.
  void schedule(double time, int rank, std::function<void()> event);
  /// Gives the baton away until all has happened that comes before this rank's clock. For
  /// what a rank does to others without an event.
  void catch_up(int rank);
  /// Gives the baton away until someone wakes this rank, at most until `deadline`, which is
  /// finite.
  void block(int rank, double deadline);
  /// `rank` continues at `time`, or at its own clock's where that is later. Has no effect on a
  /// rank that is not blocked.
  void wake(int rank, double time);

 private:
  struct Moment {
    double time;
    std::uint64_t place;     // of the rank that caused it, in the order of the seed
    std::uint64_t sequence;  // of what it caused
    auto operator<=>(const Moment&) const = default;
  };
  struct Event {
    Moment at;
    std::function<void()> happen;
  };
  struct Ready {
    Moment at;
    int rank;
  };
  /// The earliest first.
  template <typename T>
  class Queue {
   public:
    bool empty() const { return heap_.empty(); }
    const Moment& first() const { return heap_.front().at; }
    void push(T item);
    T pop();

   private:
    std::vector<T> heap_;
  };

  struct Rank {
    double clock = 0;
    double deadline = 0;  // of its wait
    std::uint64_t place = 0;
    bool blocked = false;
    Baton baton;
    std::exception_ptr error;
    std::uint64_t error_sequence = 0;
  };

  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& rank_at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Moment moment(double time, int rank) {
    return {time, rank_at(rank).place, next_sequence_++};
  }
  void make_ready(int rank);
  bool happen_next();
  void pass_on(int from);
  void live(int rank, const std::function<void(int rank)>& body);
  void rethrow_first() const;

  std::vector<Rank> ranks_;
  Queue<Event> events_;
  Queue<Ready> ready_;
  std::set<std::pair<double, int>> deadlines_;  // of the ranks that are blocked
  std::uint64_t next_sequence_ = 0;
  int running_ = 0;         // has the baton
  bool cancelled_ = false;  // not all threads could be started
  Baton over_;
};

}  // namespace topknot::transports
