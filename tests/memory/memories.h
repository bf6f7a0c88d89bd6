// SPDX-License-Identifier: Apache-2.0
//
// Memories by themselves, and gradients for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "topknot/catalog.h"

namespace topknot::testing {

inline std::vector<float> gradient_of(int step, std::size_t length) {
  core::Random random(static_cast<std::uint64_t>(step));
  std::vector<float> g(length);
  for (float& value : g) value = random.laplace();
  return g;
}

inline std::unique_ptr<Memory> memory_of(const std::string& spec, std::size_t length) {
  return make_memory(Spec::parse(spec), Layout::flat(length));
}

}  // namespace topknot::testing
