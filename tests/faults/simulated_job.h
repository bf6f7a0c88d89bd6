// SPDX-License-Identifier: Apache-2.0
//
// What a rank of a simulated job does: some steps of a collective, with a checkpoint after each
// where the plan has them, and what it has to show in the end.
#pragma once

#include <string>
#include <vector>

#include "copy_of.h"
#include "faults/fault_plan.h"
#include "store/checkpoint.h"
#include "store/memory_files.h"

namespace topknot::testing {

inline constexpr std::size_t kSize = 240;
inline constexpr std::size_t kWanted = 16;
inline constexpr int kSaves = 7;  // the channel of checkpoints

using Vector = std::vector<float>;

inline void add(Vector& x, const Vector& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

/// Whole numbers, so that sums are exact.
inline Vector gradient(const FaultPlan& plan, int rank, int step) {
  core::Random random(plan.seed * 1000 + static_cast<std::uint64_t>(100 * step + rank));
  Vector grad(kSize);
  for (float& x : grad) x = static_cast<float>(random.below(65)) - 32;
  return grad;
}

/// What one rank has to show in the end.
struct Outcome {
  std::vector<Vector> sums;       // of the steps that it completed
  std::vector<Vector> residuals;  // after them
  std::vector<bool> saved;        // after them; false where the disk refused
  Vector failed_residual;         // after the step that failed
  bool keeps_residual = true;
  bool killed = false;
  bool failed = false;
  bool disagreement = false;
  int peer = -1;
  std::string sentence;

  /// What the job has learned in its first `steps` steps.
  Vector weights(std::size_t steps) const {
    Vector all(kSize);
    for (std::size_t i = 0; i < steps; ++i) add(all, sums[i]);
    return all;
  }
};

/// Saves what `out` has; false where the disk refused, which all ranks must hear alike.
inline bool save_step(store::CheckpointFolder& folder, Transport& link,
                      const Outcome& out) {
  const std::uint64_t step = out.sums.size();
  store::Container shared;
  shared.keep("weights", out.weights(step));
  store::Container own;
  own.keep("residual", out.residuals.back());
  try {
    folder.save(link, step, shared, own, {"c0", "m0"});
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

inline void take_steps(Transport& link, const FaultPlan& plan, store::Files& files,
                       Outcome& out) {
  const bool odd = link.rank() == plan.victim;
  std::string collective = plan.collective;
  if (odd && plan.kind == FaultKind::other_way)
    collective += (collective.find(':') == std::string::npos ? ":" : ",") +
                  std::string("coding=plain");
  const std::size_t k = odd && plan.kind == FaultKind::other_k ? kWanted + 5 : kWanted;
  const Layout layout = Layout::flat(kSize);
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
  out.keeps_residual = made->keeps_residual();
  const auto saves = link.channel(kSaves);
  saves->allow(kDiskLimit);
  store::CheckpointFolder folder(files, "c");
  Vector residual(kSize);
  Vector sum(kSize);
  for (int step = 0; step < plan.steps; ++step) {
    std::ranges::fill(sum, 0.0F);
    try {
      made->reduce(residual, copy_of(gradient(plan, link.rank(), step)), k, sum);
    } catch (...) {
      out.failed_residual = residual;
      throw;
    }
    out.sums.push_back(sum);
    out.residuals.push_back(residual);
    if (plan.saves) out.saved.push_back(save_step(folder, *saves, out));
  }
}

}  // namespace topknot::testing
