// SPDX-License-Identifier: Apache-2.0
//
// Several messages in one, for the schedules in which messages are passed on: the
// lengths, 64 bits each, then the messages. These have checksums; a length that was damaged
// leaves none of them whole.
#pragma once

#include <span>

#include "collectives/primitives/message_channel.h"

namespace topknot::collective {

/// How long a packet of `count` messages of at most `limit` bytes in all can be.
constexpr std::size_t packet_limit(std::size_t count, std::size_t limit) {
  return count * sizeof(std::uint64_t) + limit;
}

void pack(std::span<const Message* const> messages, Message& packet);

/// Refuses what rank `from` sent when it is not a packet of so many messages, or one of them was
/// damaged.
void unpack(MessageChannel& channel, const Message& packet, int from,
            std::span<Message* const> messages);

}  // namespace topknot::collective
