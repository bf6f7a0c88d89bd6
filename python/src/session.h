// SPDX-License-Identifier: Apache-2.0
//
// One rank's side of all tensors that are reduced together: a reducer on a link of its own,
// behind tensors and futures.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_vector.h"
#include "engine/bucket_plan.h"
#include "engine/reducer.h"
#include "node_shards.h"
#include "sim/choose.h"
#include "transports/flight_recorder.h"

namespace topknot::python {

using engine::Reducer;
using Future = c10::intrusive_ptr<c10::ivalue::Future>;

/// How a tensor is exchanged.
struct Reduction {
  Reducer::Mode how = Reducer::Mode::by_scheme;
  bool last = true;  ///< ends the step
  /// Gets Slot::settled(), unless null.
  std::shared_ptr<std::vector<std::int64_t>> settled = nullptr;
};

/// Any thread may call; all ranks call in the same order.
class Session {
 public:
  /// `coordinates`: of the whole gradient; 0: each slot's is whole. Throws ConfigError for
  /// options that cannot be, and for a memory that makes updates of gradients, which a torch
  /// optimizer would take for gradients. Where `flight` is not empty, a rank that fails leaves there
  /// what it did last.
  Session(const EngineOptions& options, std::uint64_t coordinates,
          std::unique_ptr<Transport> link, std::string flight = "");
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Slots that are added from now on for tensors on a device have their residual there, and only
  /// what is selected is copied. Throws ConfigError where the options do not allow it.
  void select_on_devices(MakeDeviceVector make);
  /// Where `device` is given, and is the processor only with a stand-in, see select_on_devices().
  int add_slot(Layout layout, std::optional<c10::Device> device = std::nullopt);
  void remove_slots(std::vector<int> slots);
  void set_learning_rate(double rate) { open()->reducer.set_learning_rate(rate); }

  /// Queues `x` to be replaced with the mean over the ranks, all NaN where that is not finite.
  /// The future has `x`, or the error. `x` may be of any floating type and on any device.
  Future reduce(int slot, at::Tensor x, const Reduction& reduction);
  /// Likewise, over all ranks of all nodes: the session's ranks are those that have the same
  /// shard, and the slot has the shard's layout.
  Future reduce_by_nodes(int slot, at::Tensor bucket, std::shared_ptr<NodeShards> shards,
                         bool last);
  void end_settling() { open()->reducer.end_settling(); }

  /// While true, hooks give buckets back as they are: for a backward pass by which DDP only
  /// learns the order of its gradients.
  void rehearse(bool on) { rehearses_ = on; }
  bool rehearses() const noexcept { return rehearses_; }

  /// The buckets that an Engine would make of these parameters.
  std::vector<engine::BucketPlan> plan_buckets(const Layout& parameters,
                                               std::uint64_t bytes);
  /// Which of these buckets to exchange by the session's scheme, and which whole, by exchanges that
  /// are measured over its link (sim/choose.h). Nothing has been reduced yet.
  sim::Choice choose(const std::vector<engine::BucketPlan>& buckets, std::uint64_t every);
  std::string scheme() { return open()->reducer.options().scheme; }
  /// By tensor whether it is sent whole, on every step.
  std::vector<bool> sent_whole(const Layout& layout) {
    return open()->reducer.densities().sent_whole(layout);
  }
  /// The smallest density that a tensor of `layout` has in the next step.
  double density(const Layout& layout);

  /// See Reducer.
  State save();
  void load(State state, std::uint64_t step) {
    open()->reducer.load(std::move(state), step);
  }
  std::uint64_t step() { return open()->reducer.step(); }
  std::uint64_t nonfinite_steps() { return open()->reducer.nonfinite_steps(); }
  /// Of the slots that were removed, with an empty layout; then by slot.
  std::vector<std::pair<Layout, engine::Totals>> totals();

  /// Throws the error with which an exchange has failed, if one has.
  void raise_failure();

  bool idle();
  /// Finishes what is queued, ends the thread and leaves the group. Later calls throw.
  void close();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

 private:
  struct Open {
    Open(const EngineOptions& options, std::uint64_t coordinates,
         std::unique_ptr<Transport> made, std::string folder)
        : flight(std::move(folder)),
          bare(std::move(made)),
          link(make_recorded(*bare, record)),
          reducer(*link, options, coordinates) {}
    /// Finishes what is queued: somebody may wait for its futures.
    ~Open();
    /// The first error is kept, and dumped.
    void failed(const std::exception_ptr& what);
    const std::string flight;
    std::unique_ptr<Transport> bare;
    FlightRecord record;
    std::unique_ptr<Transport> link;
    std::mutex mutex;
    std::exception_ptr error;  // the first
    Reducer reducer;
  };
  std::shared_ptr<Open> open();
  std::shared_ptr<DeviceVector> on_device(int slot);
  Future reduce_on_device(int slot, at::Tensor x, const Reduction& reduction,
                          const std::shared_ptr<DeviceVector>& device);

  const int rank_;
  const int size_;
  std::atomic<bool> rehearses_ = false;
  std::mutex mutex_;
  std::shared_ptr<Open> open_;  // null once it is closed
  MakeDeviceVector make_device_vector_;
  std::map<int, std::shared_ptr<DeviceVector>> on_device_;  // by slot
};

}  // namespace topknot::python
