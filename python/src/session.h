// SPDX-License-Identifier: Apache-2.0
//
// One rank's side of all gradients that are reduced together: the communication thread, the
// plans it works by, and what is owed.
#pragma once

#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "plan.h"

namespace topknot::python {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

/// How a tensor is exchanged.
struct Exchange {
  enum class Kind {
    by_scheme,
    whole,   ///< all of it is sent, and no residual takes part
    settle,  ///< the residuals are sent instead of it, all of them; no step
  };
  Kind kind = Kind::by_scheme;
  bool last = true;  ///< ends the step
  /// Gets Plan::settled(), unless null.
  std::shared_ptr<std::vector<std::int64_t>> settled = nullptr;
};

class Session {
 public:
  Session(Config config, std::unique_ptr<Transport> link);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Makes a plan for gradients of this layout. All ranks add the same in the same order.
  /// Throws ConfigError for more than kMostCoordinates.
  int add_plan(Layout layout);
  /// Lets go of all plans; what they owe goes to those that are added later, by parameter.
  void retire_plans();

  /// Queues the flat tensor `x` to be replaced with the mean over the ranks. The future has
  /// `x`, or the error. All ranks queue in the same order. `x` may be of any floating type and
  /// on any device.
  Future reduce(int plan, at::Tensor x, const Exchange& exchange);

  /// By tensor whether it is sent whole, on every step.
  std::vector<bool> sent_whole(const Layout& layout) const;
  /// The density of the next step, where no rule says otherwise.
  double density();

  /// What is kept from step to step, as of when all that is queued is done.
  State save();
  void load(State state, std::uint64_t step);
  std::uint64_t step();
  /// Of all plans that were retired, with an empty layout; then by plan that is in use.
  std::vector<std::pair<Layout, Totals>> totals();

  /// Whether nothing is queued or under way.
  bool idle();
  /// Ends the thread and leaves the group. Later calls throw.
  void close();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

 private:
  struct Entry {
    Layout layout;
    std::unique_ptr<Plan> plan;  // made by the communication thread on first use
  };

  void work();
  void push(std::function<void()> task);
  void ask(const std::function<void()>& task);
  void reduce_now(int plan, at::Tensor x, const at::Tensor& staged,
                  const Exchange& exchange);
  bool run(Plan& plan, std::span<float> x, const Exchange& exchange);
  Plan& ready(int plan);
  void hand_over_carried(Plan& plan);
  void end_step();

  const Config config_;
  int rank_;
  int size_;

  // The communication thread's own.
  std::unique_ptr<Transport> link_;
  std::map<int, Entry> plans_;
  int next_channel_ = 0;
  State carried_;  // of parameters that no plan has taken yet
  std::uint64_t step_ = 0;
  bool step_is_finite_ = true;
  std::vector<Plan*> done_in_step_;
  Totals retired_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr failure_;  // ends everything that comes after
  bool closing_ = false;
  bool busy_ = false;
  int next_plan_ = 0;
  std::thread thread_;
};

}  // namespace topknot::python
