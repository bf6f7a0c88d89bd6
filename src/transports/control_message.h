// SPDX-License-Identifier: Apache-2.0
//
// The messages of a ControlChannel. One is
//
//   checksum    8 bytes: XXH3 of all others
//   operation   4 bytes
//   parts       4 bytes: how many follow
//   number      8 bytes: of the operation, counted by both ends
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

/// Which operation of a channel a message belongs to.
struct ControlStamp {
  ControlOperation operation;
  std::uint64_t number = 0;
};

/// The longest message of `parts` parts with at most `most` bytes each.
std::size_t control_message_limit(std::size_t parts, std::size_t most);

Bytes pack_control(ControlStamp stamp, std::span<const Bytes> parts);

/// The parts of what rank `from` sent to `rank`. Throws DisagreementError for another operation,
/// as one that is over or has not begun, and LinkError for a message that was damaged on its way or is not of `count` parts.
std::vector<Bytes> unpack_control(const Bytes& message, ControlStamp expected,
                                  std::size_t count, int from, int rank);

}  // namespace topknot::transports
