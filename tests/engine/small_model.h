// SPDX-License-Identifier: Apache-2.0
//
// A model of six parameters, and steps of an engine with it whose gradients depend on the rank,
// the step and the parameter alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "topknot/engine.h"

namespace topknot::testing {

inline Layout model() {
  return {{{"conv1.weight", 0, {8, 3, 3, 3}},
           {"conv1.bias", 0, {8}},
           {"conv2.weight", 0, {16, 8, 3}},
           {"norm.weight", 0, {16}},
           {"fc.weight", 0, {10, 40}},
           {"fc.bias", 0, {10}}}};
}

inline EngineOptions options(std::string_view scheme, std::uint64_t bucket_bytes = 1700) {
  EngineOptions made;
  made.scheme = scheme;
  made.density = 0.1;
  made.schedule = "constant";
  made.bucket_bytes = bucket_bytes;
  return made;
}

/// Whole numbers, so that sums are exact.
inline void draw(std::span<float> gradient, int rank, std::uint64_t step,
                 std::size_t parameter) {
  core::Random random(static_cast<std::uint64_t>(rank) * 10'000 + step * 100 + parameter);
  for (float& value : gradient) value = std::trunc(10 * random.laplace());
}

inline void draw_all(Engine& engine, int rank, std::uint64_t step) {
  for (std::size_t p = 0; p < model().tensors.size(); ++p)
    draw(engine.gradient(p), rank, step, p);
}

/// A step whose gradients become ready in `order`; those not in it never do.
inline StepReport step(Engine& engine, int rank, std::uint64_t number,
                       const std::vector<std::size_t>& order = {5, 4, 3, 2, 1, 0}) {
  engine.begin(0.1);
  for (const std::size_t p : order) {
    draw(engine.gradient(p), rank, number, p);
    engine.ready(p);
  }
  return engine.finish();
}

/// Of one parameter; empty where there is none.
inline std::vector<float> residual(Engine& engine, const std::string& parameter) {
  State state;
  engine.save(state);
  const auto found = state.values.find(parameter + "/memory.residual");
  return found == state.values.end() ? std::vector<float>()
                                     : std::get<std::vector<float>>(found->second);
}

inline std::vector<float> means(Engine& engine) {
  std::vector<float> all;
  for (std::size_t p = 0; p < model().tensors.size(); ++p) {
    const auto mean = engine.gradient(p);
    all.insert(all.end(), mean.begin(), mean.end());
  }
  return all;
}

}  // namespace topknot::testing
