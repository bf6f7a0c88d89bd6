// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/packet.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace topknot::collective {

void pack(std::span<const Message* const> messages, Message& packet) {
  std::vector<std::byte>& whole = packet.write();
  whole.clear();
  for (const Message* message : messages) {
    const std::uint64_t length = message->size();
    const auto bytes = std::as_bytes(std::span(&length, 1));
    whole.insert(whole.end(), bytes.begin(), bytes.end());
  }
  for (const Message* message : messages)
    whole.insert(whole.end(), message->bytes().begin(), message->bytes().end());
}

void unpack(MessageChannel& channel, const Message& packet, int from,
            std::span<Message* const> messages) {
  const std::size_t head = messages.size() * sizeof(std::uint64_t);
  const std::span<const std::byte> bytes = packet.bytes();
  std::span<const std::byte> body = bytes.subspan(std::min(head, bytes.size()));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::uint64_t length = 0;
    if (bytes.size() >= head)
      std::memcpy(&length, bytes.data() + i * sizeof length, sizeof length);
    const bool last = i + 1 == messages.size();
    if (bytes.size() < head || length > body.size() || (last && length != body.size()))
      channel.refuse(
          packet, from,
          "rank " + std::to_string(from) + " sent a packet whose lengths do not add up");
    messages[i]->write().assign(body.begin(),
                                body.begin() + static_cast<std::ptrdiff_t>(length));
    channel.require_undamaged(*messages[i], from);
    body = body.subspan(length);
  }
}

}  // namespace topknot::collective
