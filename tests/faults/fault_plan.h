// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong in one simulated job, all of it drawn from a seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/random.h"
#include "failures.h"

namespace topknot::testing {

enum class FaultKind : std::uint8_t {
  none,
  kill,       ///< a rank leaves without a word
  stop,       ///< a rank does nothing for longer than the deadline
  delay,      ///< messages take longer, but all of a step together less than the deadline
  drop,       ///< a message is lost
  duplicate,  ///< a message comes twice
  reorder,    ///< a message is overtaken by the next of its sender
  truncate,   ///< the end of a message is missing
  flip,       ///< one to three bits of a message turn
  replay,     ///< in place of a message comes the one before it
  partition,  ///< for some time no message passes between two groups of ranks
  other_k,    ///< a rank wants another k
  other_way,  ///< a rank codes otherwise
  slow_disk,  ///< a rank's file takes longer to write than the deadline
  disk_full,  ///< a call to the file system is refused
  torn,       ///< the power fails in such a call, of which half is done
  lost,       ///< the power fails, and what was not synced is lost
};
inline constexpr std::array<std::string_view, 17> kFaultNames = {
    "none",      "kill",      "stop",      "delay",  "drop",      "duplicate",
    "reorder",   "truncate",  "flip",      "replay", "partition", "other_k",
    "other_way", "slow_disk", "disk_full", "torn",   "lost"};

inline constexpr double kDeadline = 100;   // virtual seconds
inline constexpr double kDiskLimit = 500;  // of waits for a checkpoint

struct FaultPlan {
  std::uint64_t seed;
  int ranks;
  int steps = 3;
  std::string collective;
  FaultKind kind;
  int victim;             ///< the rank that is hurt
  std::uint64_t call;     ///< of the victim, before which it is hurt
  std::uint64_t message;  ///< of the job, counted as they are sent, which is hurt
  std::uint64_t random;   ///< for what else the fault needs
  double begin;           ///< of a partition, in virtual seconds
  double end;
  bool saves;               ///< whether the ranks save a checkpoint after each step
  std::uint64_t file_call;  ///< to the file system, by any rank, that fails

  bool hurts_disk() const { return kind >= FaultKind::slow_disk; }

  /// `ranks` are drawn unless they are given.
  static FaultPlan of(std::uint64_t seed, int ranks = 0) {
    core::Random random(seed);
    FaultPlan plan{};
    plan.seed = seed;
    plan.ranks = 2 + static_cast<int>(random.below(5));
    if (ranks > 0) plan.ranks = ranks;
    const auto all = all_collectives(plan.ranks);
    plan.collective = all[random.below(all.size())];
    plan.kind = static_cast<FaultKind>(random.below(kFaultNames.size()));
    plan.victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.saves = plan.hurts_disk() || random.below(2) == 0;
    plan.call = random.below(plan.saves ? 90 : 50);
    plan.message =
        random.below((plan.saves ? 30 : 18) * static_cast<std::uint64_t>(plan.ranks));
    plan.random = random.bits();
    plan.begin = 0.001 * static_cast<double>(random.below(60));
    plan.end = plan.begin + 0.001 * static_cast<double>(random.below(40));
    plan.file_call = random.below(60 + 40 * static_cast<std::uint64_t>(plan.ranks));
    return plan;
  }

  std::string str() const {
    return std::string(kFaultNames[static_cast<std::size_t>(kind)]) + " in " +
           collective + " on " + std::to_string(ranks) + " ranks, victim " +
           std::to_string(victim) + ", call " + std::to_string(call) + ", message " +
           std::to_string(message) +
           (saves ? ", with checkpoints, file call " + std::to_string(file_call) : "");
  }
};

}  // namespace topknot::testing
