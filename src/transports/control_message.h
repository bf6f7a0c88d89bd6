// SPDX-License-Identifier: Apache-2.0
//
// The messages of a ControlChannel. One is
//
//   operation   4 bytes
//   parts       4 bytes: how many follow
//   checksum    8 bytes: XXH3 of all bytes after it, seeded with those before it
//   length      8 bytes for each part
//   part ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topknot::transports {

using Bytes = std::vector<std::byte>;

/// What a rank is doing when it sends a message.
enum class ControlOperation : std::uint32_t {
  gather,
  gather_at_0,
  broadcast,
  outcome,
  decision
};

/// The longest message of `parts` parts with at most `most` bytes each.
std::size_t control_message_limit(std::size_t parts, std::size_t most);

Bytes pack_control(ControlOperation operation, std::span<const Bytes> parts);

/// The parts of what rank `from` sent to `rank`. Throws DisagreementError for another operation
/// and LinkError for a message that was damaged on its way or is not of `count` parts.
std::vector<Bytes> unpack_control(const Bytes& message, ControlOperation operation,
                                  std::size_t count, int from, int rank);

}  // namespace topknot::transports
