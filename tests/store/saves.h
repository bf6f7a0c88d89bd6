// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints whose every number says of which step and rank it is, so that one put
// together from two steps is seen to be.
#pragma once

#include <gtest/gtest.h>

#include "ranks.h"
#include "store/checkpoint.h"
#include "store/memory_files.h"

namespace topknot::store::testing {

using topknot::testing::run;
using topknot::testing::run_to_the_end;

inline constexpr std::size_t kLength = 5;

inline float number_of(std::uint64_t step, int rank, std::size_t i) {
  return static_cast<float>(step * 1000 + static_cast<std::uint64_t>(rank) * 10 + i);
}

inline Container shared_of(std::uint64_t step) {
  Container shared;
  shared.keep("conv.weight", std::vector<float>(6, static_cast<float>(step)), {2, 3});
  shared.keep("position", step);
  return shared;
}

inline Container own_of(std::uint64_t step, int rank) {
  std::vector<float> residual(kLength);
  for (std::size_t i = 0; i < kLength; ++i) residual[i] = number_of(step, rank, i);
  Container own;
  own.keep("conv.weight/memory.residual", std::move(residual));
  mark_folded(own, "conv.weight/memory.residual");
  own.keep("conv.weight/compressor.threshold", 0.5F + static_cast<float>(step));
  return own;
}

inline void save(CheckpointFolder& folder, Transport& link, std::uint64_t step) {
  folder.save(link, step, shared_of(step), own_of(step, link.rank()), {"c0", "m0"});
}

/// Fails unless everything in `loaded` is of its own step and of `rank`.
inline void expect_whole(const Loaded& loaded, int rank) {
  const std::uint64_t step = loaded.manifest.step;
  EXPECT_EQ(loaded.shared.scalar<std::uint64_t>("position"), step);
  for (const float x : loaded.shared.values<float>("conv.weight"))
    EXPECT_EQ(x, static_cast<float>(step));
  if (loaded.resized) return;
  const auto residual = loaded.own.values<float>("conv.weight/memory.residual");
  ASSERT_EQ(residual.size(), kLength);
  for (std::size_t i = 0; i < kLength; ++i)
    EXPECT_EQ(residual[i], number_of(step, rank, i));
  EXPECT_EQ(loaded.own.scalar<float>("conv.weight/compressor.threshold"),
            0.5F + static_cast<float>(step));
}

/// What `ranks` ranks load, checked; the step, the same on all.
inline std::uint64_t load(Files& files, const std::string& path, int ranks) {
  std::vector<std::uint64_t> steps(static_cast<std::size_t>(ranks));
  run(ranks, [&](Transport& link) {
    CheckpointFolder folder(files, path);
    const Loaded loaded = folder.load(link, "m0");
    expect_whole(loaded, link.rank());
    steps[static_cast<std::size_t>(link.rank())] = loaded.manifest.step;
  });
  for (const std::uint64_t step : steps) EXPECT_EQ(step, steps[0]);
  return steps[0];
}

/// A run of its own that saves `steps`, one after another.
inline void save_all(Files& files, const std::string& path, int ranks,
                     const std::vector<std::uint64_t>& steps) {
  run(ranks, [&](Transport& link) {
    CheckpointFolder folder(files, path);
    for (const std::uint64_t step : steps) save(folder, link, step);
  });
}

}  // namespace topknot::store::testing
