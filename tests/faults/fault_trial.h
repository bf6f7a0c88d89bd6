// SPDX-License-Identifier: Apache-2.0
//
// One simulated job in which something goes wrong, and the oracles that are asked after it:
//
//   nothing is lost      the sum and the residuals after a step are what residuals and gradients
//                        were before it; a rank whose step fails has residual + gradient
//   all or none          all ranks have the bits of the same sums; no rank gets two steps ahead; a
//                        checkpoint is saved for all or for none
//   no long wait         none lasts longer than its limit and 2 s, by the virtual clock
//   the right blame      all ranks name the same rank, and where one is to blame, that one
//   no false alarm       a fault that changes no message ends no job
//   no mixed checkpoint  what a next job loads is of one step, on all ranks, and no older than what
//                        any rank was told is saved
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "core/hash.h"
#include "faults/faulty_transport.h"
#include "faults/simulated_job.h"
#include "topknot/error.h"

namespace topknot::testing {

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : Trial(FaultPlan::of(seed)) {}
  explicit Trial(FaultPlan plan) : state_(std::move(plan)) {}

  const FaultState& state() const { return state_; }
  const FaultPlan& plan() const { return state_.plan; }
  bool failed() const {
    return std::ranges::any_of(
        ranks_, [](const Outcome& rank) { return rank.failed || rank.killed; });
  }
  /// Whether a checkpoint was loaded after it.
  bool resumed() const { return resumed_; }

  void run() {
    ranks_.resize(static_cast<std::size_t>(plan().ranks));
    arm_disk();
    SimulationOptions options = network();
    options.on_message = [this](SimulatedMessage& message) { pass(message); };
    run_simulated(plan().ranks, options, [this](SimulatedTransport& rank) {
      Outcome& out = ranks_[static_cast<std::size_t>(rank.rank())];
      FaultyTransport link(rank, rank, state_);
      if (rank.rank() == plan().victim) victim_ = &rank;
      try {
        take_steps(link, plan(), files_, out);
      } catch (const Killed&) {
        out.killed = true;
      } catch (const store::testing::Killed&) {
        out.killed = powerless_ = true;
      } catch (const LinkError& error) {
        out.killed = powerless_;  // the power of all ranks
        out.failed = !powerless_;
        out.peer = error.peer();
        out.sentence = error.what();
        out.disagreement = dynamic_cast<const DisagreementError*>(&error) != nullptr;
      }
    });
    if (plan().kind > FaultKind::slow_disk && files_.calls() > plan().file_call)
      ++state_.injected;
    files_.watch = nullptr;
    files_.restart(loss());
  }

  void expect_all() {
    expect_all_or_none();
    expect_nothing_lost();
    expect_blame();
    if (plan().saves) expect_one_checkpoint();
    EXPECT_LE(state_.overdue, 2 + delay_in_all());
  }

  /// Of all that a run with the same seed must repeat. A checkpoint's messages have the time in
  /// them, and so has a sentence with their checksum.
  std::uint64_t hash() const {
    std::uint64_t all = state_.sent;
    for (const Outcome& rank : ranks_) {
      for (const Vector& sum : rank.sums)
        all = core::hash(std::as_bytes(std::span(sum)), all);
      all = core::hash(std::as_bytes(std::span(&rank.peer, 1)), all);
      if (!plan().saves) all = core::hash(std::as_bytes(std::span(rank.sentence)), all);
    }
    return all;
  }

 private:
  using Fault = store::testing::MemoryFiles::Fault;
  using Loss = store::testing::MemoryFiles::Loss;

  SimulationOptions network() const {
    SimulationOptions options;
    options.network.between = {1e5, 0.001, 0.0001, 0};
    options.network.inside = options.network.between;
    options.seed = plan().seed;
    options.timeout = kDeadline;
    return options;
  }

  void arm_disk() {
    if (plan().kind > FaultKind::slow_disk)
      files_.arm(plan().kind == FaultKind::disk_full ? Fault::refuse : Fault::kill,
                 plan().file_call);
    if (plan().kind != FaultKind::slow_disk) return;
    const std::string slow = "shard-" + std::to_string(plan().victim) + ".safetensors";
    files_.watch = [this, slow](const std::string& call, const std::string& path) {
      if (call != "Sync" || !path.ends_with(slow)) return;
      victim_->work(3 * kDeadline);
      ++state_.injected;
    };
  }

  /// What the disk forgets.
  Loss loss() const {
    constexpr Loss kLosses[] = {Loss::unsynced_bytes, Loss::unsynced_names,
                                Loss::unsynced_folders, Loss::all_unsynced};
    return plan().kind == FaultKind::lost ? kLosses[plan().random % 4] : Loss::nothing;
  }

  std::size_t steps() const { return static_cast<std::size_t>(plan().steps); }

  // A stopped rank waits for itself.
  double delay_in_all() const {
    return plan().kind == FaultKind::stop ? 10 * kDiskLimit : 0;
  }

  void pass(SimulatedMessage& message) {
    if (message.from == message.to) return;
    const std::uint64_t number = passed_++;
    switch (plan().kind) {
      case FaultKind::delay:
        if (core::random_bits(plan().random, number) % 4 != 0) return;
        message.delay =
            0.1 * static_cast<double>(core::random_bits(plan().random, ~number) % 20);
        ++state_.injected;
        return;
      case FaultKind::drop:
        message.lost = number == plan().message;
        break;
      case FaultKind::partition: {
        const auto side = [&](int rank) { return (plan().random >> rank & 1) != 0; };
        message.lost = message.time >= plan().begin && message.time < plan().end &&
                       side(message.from) != side(message.to);
        break;
      }
      default:
        return;
    }
    if (message.lost) ++state_.injected;
  }

  void expect_all_or_none() const {
    std::size_t most = 0;
    std::size_t least = steps();
    for (const Outcome& rank : ranks_) {
      most = std::max(most, rank.sums.size());
      if (!rank.killed) least = std::min(least, rank.sums.size());
      for (const Outcome& other : ranks_) {
        for (std::size_t s = 0; s < std::min(rank.sums.size(), other.sums.size()); ++s)
          EXPECT_EQ(rank.sums[s], other.sums[s]) << "step " << s;
        for (std::size_t s = 0; s < std::min(rank.saved.size(), other.saved.size()); ++s)
          EXPECT_EQ(rank.saved[s], other.saved[s]) << "checkpoint of step " << s;
      }
      const bool whole = rank.sums.size() == steps() &&
                         rank.saved.size() == (plan().saves ? steps() : 0);
      EXPECT_EQ(rank.failed || rank.killed, !whole);
    }
    EXPECT_LE(most, least + 1) << "a rank is two steps ahead";
  }

  void expect_nothing_lost() const {
    for (std::size_t step = 0; step < steps(); ++step) {
      const bool whole = std::ranges::all_of(
          ranks_, [&](const Outcome& rank) { return rank.sums.size() > step; });
      Vector before(kSize);
      Vector after(kSize);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const Outcome& rank = ranks_[r];
        if (rank.sums.size() < step) continue;
        Vector held = gradient(plan(), static_cast<int>(r), static_cast<int>(step));
        if (step > 0) add(held, rank.residuals[step - 1]);
        const bool failed_here =
            rank.sums.size() == step && rank.saved.size() >= (plan().saves ? step : 0);
        if (rank.failed && rank.keeps_residual && failed_here) {
          EXPECT_EQ(rank.failed_residual, held) << "rank " << r << " lost its gradient";
        }
        add(before, held);
        if (whole) add(after, rank.residuals[step]);
      }
      if (!whole) return;
      add(after, ranks_[0].sums[step]);
      EXPECT_EQ(after, before) << "step " << step << " lost some of the gradient";
    }
  }

  void expect_blame() const {
    std::set<int> named;
    for (const Outcome& rank : ranks_)
      if (rank.failed) named.insert(rank.peer);
    if (named.empty()) return;
    std::string said;
    for (const Outcome& rank : ranks_)
      if (said.find(rank.sentence) == std::string::npos) said += "\n" + rank.sentence;
    if (!may_be_found_twice()) {
      EXPECT_EQ(named.size(), 1U) << "ranks name different ranks: " << said;
    }
    switch (plan().kind) {
      case FaultKind::kill:
      case FaultKind::stop:
        EXPECT_EQ(*named.begin(), plan().victim) << said;
        break;
      case FaultKind::truncate:
      case FaultKind::flip:
        EXPECT_EQ(*named.begin(), state_.sender) << said;
        break;
      case FaultKind::other_k:
      case FaultKind::other_way:
        EXPECT_NE(said.find("rank " + std::to_string(plan().victim)), std::string::npos)
            << said;
        break;
      case FaultKind::none:
      case FaultKind::delay:
      case FaultKind::slow_disk:
      case FaultKind::disk_full:
        ADD_FAILURE() << "a false alarm: " << said;
        break;
      default:
        EXPECT_GT(state_.injected, 0) << "a false alarm: " << said;
    }
  }

  // Two ranks that no longer do the same may both find it at one moment, and each then names
  // the other.
  bool may_be_found_twice() const {
    const bool disagreement = std::ranges::any_of(
        ranks_, [](const Outcome& rank) { return rank.disagreement; });
    return disagreement || plan().kind == FaultKind::duplicate ||
           plan().kind == FaultKind::reorder || plan().kind == FaultKind::replay;
  }

  /// The step after which the newest checkpoint was that some rank knows to be saved; 0: none.
  std::size_t confirmed() const {
    std::size_t newest = 0;
    for (const Outcome& rank : ranks_)
      for (std::size_t s = 0; s < rank.saved.size(); ++s)
        if (rank.saved[s]) newest = std::max(newest, s + 1);
    return newest;
  }

  void expect_one_checkpoint() {
    std::vector<std::uint64_t> steps(ranks_.size());  // 0: there is none
    run_simulated(plan().ranks, network(), [&](SimulatedTransport& link) {
      const auto rank = static_cast<std::size_t>(link.rank());
      try {
        const store::Loaded loaded =
            store::CheckpointFolder(files_, "c").load(link, "m0");
        steps[rank] = loaded.manifest.step;
        expect_of_step(loaded, ranks_[rank]);
      } catch (const NoCheckpointError&) {
      }
    });
    for (const std::uint64_t step : steps)
      EXPECT_EQ(step, steps[0]) << "ranks load different steps";
    EXPECT_GE(steps[0], confirmed()) << "a checkpoint that was saved is gone";
    resumed_ = steps[0] > 0;
  }

  static void expect_of_step(const store::Loaded& loaded, const Outcome& rank) {
    const std::uint64_t step = loaded.manifest.step;
    ASSERT_LE(step, rank.sums.size()) << "a step that a rank has not completed";
    const auto weights = loaded.shared.values<float>("weights");
    EXPECT_EQ(Vector(weights.begin(), weights.end()), rank.weights(step))
        << "weights of another step than " << step;
    const auto residual = loaded.own.values<float>("residual");
    EXPECT_EQ(Vector(residual.begin(), residual.end()), rank.residuals[step - 1])
        << "a residual of another step or rank than " << step;
  }

  FaultState state_;
  std::vector<Outcome> ranks_;
  store::testing::MemoryFiles files_;
  std::uint64_t passed_ = 0;
  SimulatedTransport* victim_ = nullptr;
  bool powerless_ = false;
  bool resumed_ = false;
};

}  // namespace topknot::testing
