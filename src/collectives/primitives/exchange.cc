// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/exchange.h"

#include <algorithm>

#include "collectives/primitives/packet.h"

namespace topknot::collective {

void Exchange::run(MessageChannel& channel, std::span<const SparseView> parts,
                   std::span<const Region> regions, std::uint64_t most,
                   std::vector<Sparse>& blocks, std::vector<std::vector<float>>& errors,
                   Route route) {
  const int ranks = channel.size();
  const int me = channel.rank();
  for (auto* by_rank : {&sent_, &received_}) by_rank->resize(at(ranks));
  blocks.resize(at(ranks));
  errors.resize(at(ranks));
  blocks[at(me)].clear();
  blocks[at(me)].append(parts[at(me)]);
  errors[at(me)].clear();

  std::size_t limit = 0;
  for (int to = 0; to < ranks; ++to) {
    limit = std::max(limit, channel.limit(most, regions[at(to)].size()));
    if (to == me) continue;
    channel.code(parts[at(to)], regions[at(to)], to, sent_[at(to)], errors[at(to)]);
  }
  route == Route::direct ? rotate(channel, limit) : bruck(channel, limit);
  for (int from = 0; from < ranks; ++from)
    if (from != me)
      channel.read(received_[at(from)], from, me, regions[at(me)], most,
                   blocks[at(from)]);
}

void Exchange::rotate(MessageChannel& channel, std::size_t limit) {
  constexpr int kWindow = 4;  // messages on their way at a time, each way
  const int ranks = channel.size();
  const auto start = [&](int distance) {
    const int from = channel.neighbour(-distance);
    channel.start_receive(from, received_[at(from)], limit);
    channel.start_send(channel.neighbour(distance),
                       sent_[at(channel.neighbour(distance))]);
  };
  for (int distance = 1; distance < std::min(ranks, 1 + kWindow); ++distance)
    start(distance);
  for (int distance = 1; distance < ranks; ++distance) {
    channel.finish_receive(channel.neighbour(-distance));
    if (distance + kWindow < ranks) start(distance + kWindow);
  }
  channel.flush();
}

// In the round of a bit, all messages whose distance has that bit set move on by it.
// Between rounds the message that is to travel a distance d in all is where sent_ has the
// neighbour at distance d; in the end that is the message of the neighbour at distance
// -d.
void Exchange::bruck(MessageChannel& channel, std::size_t limit) {
  const int ranks = channel.size();
  std::vector<const Message*> outgoing;
  std::vector<Message*> incoming;
  for (int bit = 1; bit < ranks; bit *= 2) {
    outgoing.clear();
    incoming.clear();
    for (int distance = bit; distance < ranks; ++distance)
      if ((distance & bit) != 0) {
        outgoing.push_back(&sent_[at(channel.neighbour(distance))]);
        incoming.push_back(&sent_[at(channel.neighbour(distance))]);
      }
    const int from = channel.neighbour(-bit);
    channel.start_receive(from, packed_,
                          packet_limit(outgoing.size(), outgoing.size() * limit));
    pack(outgoing, pack_);
    channel.start_send(channel.neighbour(bit), pack_);
    channel.finish_receive_packet(from);
    channel.flush();
    unpack(channel, packed_, from, incoming);
  }
  for (int distance = 1; distance < ranks; ++distance)
    std::swap(received_[at(channel.neighbour(-distance))],
              sent_[at(channel.neighbour(distance))]);
}

}  // namespace topknot::collective
