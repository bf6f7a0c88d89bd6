// SPDX-License-Identifier: Apache-2.0
//
// Runs a test on every instruction set that is compiled in and that this processor has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace topknot::core {

template <typename Body>
void on_every_target(Body body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

/// For comparisons that tell -0.0 from 0.0 and take a NaN for equal to itself.
inline std::vector<std::uint32_t> bits(std::span<const float> x) {
  std::vector<std::uint32_t> all(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) all[i] = std::bit_cast<std::uint32_t>(x[i]);
  return all;
}

}  // namespace topknot::core
