// SPDX-License-Identifier: Apache-2.0
#include "collectives/packet.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "topknot/error.h"

namespace topknot::collective {

void pack(std::span<const Message* const> messages, Message& packet) {
  packet.clear();
  for (const Message* message : messages) {
    const std::uint64_t length = message->size();
    const auto bytes = std::as_bytes(std::span(&length, 1));
    packet.insert(packet.end(), bytes.begin(), bytes.end());
  }
  for (const Message* message : messages)
    packet.insert(packet.end(), message->begin(), message->end());
}

void unpack(const Message& packet, int from, std::span<Message* const> messages) {
  const std::size_t head = messages.size() * sizeof(std::uint64_t);
  std::span<const std::byte> body = packet;
  body = body.subspan(std::min(head, body.size()));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::uint64_t length = 0;
    if (packet.size() >= head)
      std::memcpy(&length, packet.data() + i * sizeof length, sizeof length);
    const bool last = i + 1 == messages.size();
    if (packet.size() < head || length > body.size() || (last && length != body.size()))
      throw LinkError(from, "rank " + std::to_string(from) +
                                " sent a packet whose lengths do not add up.");
    messages[i]->assign(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(length));
    body = body.subspan(length);
  }
}

}  // namespace topknot::collective
