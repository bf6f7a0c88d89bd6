// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace topknot::core {

/// 64-bit XXH3 of `bytes`: for fingerprints and checks against accidents, not attackers.
std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// The same, seed 0, of bytes that come in pieces, wherever they were cut.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Of what was added so far.
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace topknot::core
