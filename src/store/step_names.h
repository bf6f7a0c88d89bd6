// SPDX-License-Identifier: Apache-2.0
//
// What the names in a folder of checkpoints mean.
//
//     step-1200                      a checkpoint
//     step-1200.ATTEMPT.tmp          one that ATTEMPT is writing
//     dead-ATTEMPT-3.tmp             one that ATTEMPT is removing
//     lock                           names the attempt that may publish
//     lock.ATTEMPT.tmp               the lock that ATTEMPT is writing
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace topknot::store {

inline constexpr const char* kManifestName = "manifest";
inline constexpr const char* kLockName = "lock";
inline constexpr const char* kRemovedPrefix = "dead-";

inline std::string name_of_step(std::uint64_t step) {
  return "step-" + std::to_string(step);
}

/// The step in the name of a checkpoint; nothing for any other name.
inline std::optional<std::uint64_t> step_in(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return name_of_step(step) == name ? std::optional(step) : std::nullopt;
}

/// Whether `name` is one of those above that end in .tmp.
inline bool is_unfinished(std::string_view name) {
  return name.ends_with(".tmp") &&
         (name.starts_with("step-") || name.starts_with(kRemovedPrefix) ||
          name.starts_with("lock."));
}

}  // namespace topknot::store
