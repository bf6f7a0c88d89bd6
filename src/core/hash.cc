// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <xxhash.h>

#include <new>

namespace topknot::core {

std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

// The library makes its own states, aligned as it wants them.
struct Hasher::State {
  State() : inner(XXH3_createState()) {
    if (inner == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(inner);
  }
  ~State() { XXH3_freeState(inner); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* inner;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_->inner, bytes.data(), bytes.size());
}

std::uint64_t Hasher::value() const { return XXH3_64bits_digest(state_->inner); }

}  // namespace topknot::core
