// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a job agree on the cause of a failure. Every transport uses it.
//
// A rank that waits for a lost rank makes others wait for itself, so the rank that is waited for
// is not always the one that is lost. Each rank knows which rank it waits for at this moment: its
// edge of the wait-for graph. When a wait is overdue, the rank asks all others for their edges and
// follows them from the rank that it waits for. The path ends at a rank that does not answer or
// waits for nobody: that rank is lost.
//
//   rank 2 is stopped        1 --> 0 --> 3 --> 2     rank 1 asks: 0 waits for 3, 3 waits for 2,
//                                                    2 does not answer: rank 2 is lost
//
// A channel may have a limit of its own, for ranks that wait for a disk. Such waits are a graph of
// their own: a rank that has waited long for a disk does not hide whom its next step waits for. A rank
// that has no wait in the graph in question answers with one of the other, if it has any. Where that
// leads to a rank that is lost, that is the one; where it leads round in a circle, the rank that should
// have been waiting in the graph and is not.
//
// An answer belongs to one question, so a wait that ended well leaves nothing behind. The first
// rank that knows the cause tells all others, and every rank throws the same error. A rank that
// finds that two ranks disagree tells all others in the same way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topknot/error.h"

namespace topknot::transports {

/// Why a job failed.
struct Failure {
  int peer = 0;
  std::string sentence;
  bool disagreement = false;

  static Failure of(const LinkError& error);
  /// Throws LinkError or DisagreementError.
  [[noreturn]] void raise() const;
};

/// One rank's part. Any number of threads may use it.
class FailureAgreement {
 public:
  using Clock = std::chrono::steady_clock;
  using Bytes = std::vector<std::byte>;

  /// In place of a rank: this rank waits for all others.
  static constexpr int kEveryone = -2;
  /// No control message is longer.
  static constexpr std::size_t kMostBytes = 4096;

  struct Network {
    /// Sends a control message to a rank, without waiting for it, and never throws.
    std::function<void(int to, Bytes message)> post;
    /// Is called once, as soon as failed() is true: threads that wait must check it.
    std::function<void()> on_failure;
    /// The clock of deadlines; a simulated network has its own.
    std::function<Clock::time_point()> now = Clock::now;
  };

  FailureAgreement(int rank, int size, double timeout, Network network);

  enum class Graph : std::int32_t { steps, slow };

  /// While this object exists, its rank waits for `peer`.
  class Wait {
   public:
    /// `limit` is in seconds; without one the job's timeout counts.
    Wait(FailureAgreement& agreement, int peer, std::optional<double> limit = {});
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    /// When the wait is overdue.
    Clock::time_point deadline() const noexcept { return place_->deadline; }
    /// What this rank is doing, for the error's sentence.
    void describe(std::string doing);

   private:
    friend class FailureAgreement;
    struct Edge {
      int peer;
      std::uint64_t id;
      Clock::time_point deadline;
      double limit;  // seconds
      Graph graph;
      std::string doing;
    };
    FailureAgreement& agreement_;
    std::list<Edge>::iterator place_;
  };

  /// Whether the job has failed.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Only once failed() is true.
  const Failure& failure() const noexcept { return *failure_; }

  /// Makes the job fail with `failure` unless it has failed. With `tell` all other ranks are told.
  void fail(Failure failure, bool tell = true);

  /// Handles a control message. Ignores anything else, and one that was damaged: a rank that
  /// does not hear of a failure finds it itself.
  void receive(int from, std::span<const std::byte> message);

  /// Asks about waits that are overdue, and decides once the answers have come or are too late.
  /// To be called repeatedly from the first deadline on. Returns when to call it next.
  Clock::time_point check(Clock::time_point now);

  /// How long a rank may take to answer: longer than a process waits for its turn on a busy
  /// machine, and so short that a rank ends within 2 s of its timeout.
  static constexpr std::chrono::seconds kAnswerTime{1};

 private:
  struct Question {
    std::uint64_t number;
    std::uint64_t about;  // the id of the wait that was overdue
    Clock::time_point asked;
    struct Answer {
      int peer;    // whom it waits for
      bool other;  // in the other graph
    };
    std::vector<std::optional<Answer>> answers;  // by rank
  };

  // With the mutex held:
  std::optional<Failure> decide(const Wait::Edge& overdue, bool too_late) const;
  std::optional<int> end_of(std::vector<int>& path, bool too_late) const;
  int missing_from_all() const;
  Failure silence(const Wait::Edge& overdue, int lost,
                  const std::vector<int>& path) const;
  Failure circle(const Wait::Edge& overdue, const std::vector<int>& path) const;

  Bytes answer(std::uint64_t number, Graph graph);
  void post_all(const Bytes& message);

  const int rank_;
  const int size_;
  const double timeout_;
  const Network network_;

  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::optional<Failure> failure_;  // written once, before failed_
  std::list<Wait::Edge> waits_;     // in each graph the oldest first
  std::uint64_t last_id_ = 0;
  std::uint64_t last_number_ = 0;
  std::optional<Question> question_;
};

}  // namespace topknot::transports
