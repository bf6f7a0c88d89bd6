// SPDX-License-Identifier: Apache-2.0
//
// The exchange of all vectors of a step: one communication thread reduces slot after slot, in
// the order in which they were submitted, while the caller computes. Engine and the PyTorch
// package are built on it.
//
//   submit     queues a vector; on the communication thread Slot::step replaces it with the
//              agreed mean, and `done` is called
//   end_step   queued behind the vectors of a step: decides for all of them
//
// A step of which one slot is not finite is not applied, on any rank. Every rank learns it
// from the same slot, so all ranks leave out the slots behind it, and undo those before it:
// see docs/decisions/0004-a-step-is-applied-whole.md.
//
// Other threads read what the communication thread writes only after wait(), which takes the
// pipeline's lock.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "engine/pipeline.h"
#include "engine/slot.h"
#include "topknot/engine.h"

namespace topknot::engine {

class Reducer {
 public:
  /// How a vector is exchanged.
  enum class Mode {
    by_scheme,
    whole,      ///< by a dense sum in which no residual takes part
    residuals,  ///< all of the residual is exchanged, and its mean replaces the vector
  };
  /// Called on the communication thread when a vector has been exchanged, or was not, because
  /// of `error` or since the step is not finite. The slot is null where it could not be made.
  /// Where the call throws, it is called once more, with that error. It may find that the step
  /// is not finite after all, on all ranks alike, and says so by `finite`.
  struct Result {
    bool finite = true;
    std::exception_ptr error;
    const Slot* slot = nullptr;
  };
  using Done = std::function<void(Result&)>;
  /// A vector in host memory, or the one that the slot has on its device.
  struct OnDevice {};
  using Vector = std::variant<std::span<float>, OnDevice>;
  /// Gives the vector, on the communication thread.
  using Source = std::function<Vector()>;

  /// `coordinates`: of the whole gradient; 0: each slot's is whole. Throws ConfigError for
  /// options that cannot be. The link must outlive it.
  Reducer(Transport& link, const EngineOptions& options, std::uint64_t coordinates);
  /// Waits for the slot under way, at most until the link's deadline, and drops the others.
  ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // ---- queued: done in this order, the same on all ranks

  /// Makes a slot for vectors of this layout and returns its number. The state that is carried
  /// for its parameters becomes the slot's. With `device` its vectors are there by scheme, and in
  /// host memory otherwise.
  int add_slot(Layout layout, std::shared_ptr<DeviceVector> device = nullptr);
  /// Carries the state of these slots, by parameter, to those that are added later. They have
  /// no part in the step under way.
  void remove_slots(std::vector<int> slots);
  /// The rate that the steps from now on are applied with. 1 until it is set.
  void set_learning_rate(double rate);
  void submit(int slot, Source source, Done done = {}, Mode mode = Mode::by_scheme);
  /// Ends a step of the vectors that were submitted since the last end.
  void end_step();
  /// Ends an exchange of residuals: they become zero where the sums of all slots were finite,
  /// and stay as they are elsewhere. No step.
  void end_settling();

  // ---- answered behind all that is queued

  /// Waits for it. Throws the error of an exchange, this time and every later one: then nothing is
  /// exchanged any more, and the state can still be saved.
  void wait();
  /// Of the last end_step() or end_settling(): sums over the slots and one trace for each, in
  /// their order. Times of the caller are not in it.
  StepReport take_report();

  /// Saves and loads what is kept from step to step, with what is carried. A slot takes its
  /// state now or when it is added. Throws ConfigError where a parameter has another length;
  /// everything is then as it was.
  void save(State& state);
  void load(State state, std::uint64_t step);
  std::uint64_t step();
  /// Of all steps so far, those that were not applied.
  std::uint64_t nonfinite_steps();

  /// Of the slots that were removed; then of each, by number.
  Totals removed_totals();
  std::vector<std::pair<Layout, Totals>> totals();
  const Slot& slot(int number);
  std::uint64_t memory_bytes();
  /// Of the slots there are now.
  Traffic traffic();
  double residual_norm();

  /// Whether nothing is queued or under way.
  bool idle() { return pipeline_.idle(); }

  const EngineOptions& options() const noexcept { return options_; }
  const Densities& densities() const noexcept { return densities_; }

 private:
  // On the communication thread, or between tasks.
  template <typename Task>
  void queue(Task task);
  template <typename Task>
  void behind_the_queue(Task task);
  void reduce(int number, const Source& source, const Done& done, Mode mode);
  StepTrace exchange(Slot& slot, const Vector& vector, Mode mode);
  StepTrace leave_out(Slot& slot);
  void give_carried(Slot& slot);
  void end(bool is_step);

  Transport& link_;
  const EngineOptions options_;
  const Densities densities_;
  const std::uint64_t coordinates_;
  int next_number_ = 0;  // the caller's own, as the numbers are given out at once

  std::map<int, std::unique_ptr<Slot>> slots_;
  int next_channel_ = 0;
  State carried_;  // of parameters that no slot has taken yet
  double learning_rate_ = 1;
  std::uint64_t step_ = 0;
  std::uint64_t nonfinite_steps_ = 0;
  std::vector<Slot*> in_step_;
  std::vector<StepTrace> traces_;
  bool finite_ = true;  // no slot of this step was not finite so far
  StepReport report_;
  Totals removed_;
  std::exception_ptr error_;

  Pipeline pipeline_;  // last: its tasks use all of the above
};

}  // namespace topknot::engine
