// SPDX-License-Identifier: Apache-2.0
//
// Everyone's block to everyone. The blocks are coded once, by the rank they come from,
// and passed on as they are.
#include <algorithm>

#include "collectives/primitives/packet.h"
#include "collectives/primitives/primitives.h"

namespace topknot::collective {

void Allgather::run(MessageChannel& channel, SparseView mine,
                    std::span<const Region> regions, std::uint64_t most,
                    std::vector<Sparse>& blocks, std::vector<float>& error, Route route) {
  blocks.resize(at(channel.size()));
  if (channel.size() == 1) {
    blocks[0].clear();
    blocks[0].append(mine);
    error.clear();
    return;
  }
  channel.code(mine, regions[at(channel.rank())], MessageChannel::kEveryone, pack_,
               error);
  run_coded(channel, pack_, regions, most, blocks, route);
}

void Allgather::run_coded(MessageChannel& channel, Message& mine,
                          std::span<const Region> regions, std::uint64_t most,
                          std::vector<Sparse>& blocks, Route route) {
  blocks.resize(at(channel.size()));
  messages_.resize(at(channel.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(channel.limit(most, region.size()));
  std::swap(messages_[at(channel.rank())], mine);
  pass_round(channel, limits_, route);
  for (int origin = 0; origin < channel.size(); ++origin)
    channel.read(messages_[at(origin)], origin, MessageChannel::kEveryone,
                 regions[at(origin)], most, blocks[at(origin)]);
}

void Allgather::run_positions(MessageChannel& channel,
                              std::span<const std::uint32_t> mine,
                              std::span<const Region> regions, std::uint64_t most,
                              std::vector<std::vector<std::uint32_t>>& blocks,
                              Route route) {
  blocks.resize(at(channel.size()));
  blocks[at(channel.rank())].assign(mine.begin(), mine.end());
  if (channel.size() == 1) return;
  messages_.resize(at(channel.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(channel.limit(most, region.size()));
  channel.code_positions(mine, regions[at(channel.rank())], MessageChannel::kEveryone,
                         messages_[at(channel.rank())]);
  pass_round(channel, limits_, route);
  for (int origin = 0; origin < channel.size(); ++origin)
    if (origin != channel.rank())
      channel.read_positions(messages_[at(origin)], origin, MessageChannel::kEveryone,
                             regions[at(origin)], most, blocks[at(origin)]);
}

void Allgather::run_dense(MessageChannel& channel, std::span<const Region> regions,
                          std::span<float> x, std::vector<float>& error, Route route) {
  error.clear();
  if (channel.size() == 1) return;
  const auto piece = [&](int rank) {
    return x.subspan(regions[at(rank)].begin, regions[at(rank)].size());
  };
  messages_.resize(at(channel.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(channel.limit(region.size(), region.size()));
  channel.code_dense(piece(channel.rank()), MessageChannel::kEveryone,
                     messages_[at(channel.rank())], error);
  pass_round(channel, limits_, route);
  for (int origin = 0; origin < channel.size(); ++origin)
    channel.read_dense(messages_[at(origin)], origin, MessageChannel::kEveryone,
                       piece(origin),
                       /*add=*/false);
}

void Allgather::pass_round(MessageChannel& channel, std::span<const std::size_t> limits,
                           Route route) {
  route == Route::direct ? ring(channel, limits) : bruck(channel, limits);
  for (const Message& message : messages_) channel.note_nonfinite(message);
}

void Allgather::ring(MessageChannel& channel, std::span<const std::size_t> limits) {
  const int left = channel.neighbour(-1);
  const int right = channel.neighbour(+1);
  const int hops = channel.size() - 1;
  for (int hop = 1; hop <= hops; ++hop) {
    const int origin = channel.neighbour(-hop);
    channel.start_receive(left, messages_[at(origin)], limits[at(origin)]);
  }
  for (int hop = 0; hop < hops; ++hop) {
    channel.start_send(right, messages_[at(channel.neighbour(-hop))]);
    channel.finish_receive(left);
  }
  channel.flush();
}

// After the round with `gap` this rank holds the blocks of itself and of the 2*gap - 1
// ranks to its right.
void Allgather::bruck(MessageChannel& channel, std::span<const std::size_t> limits) {
  std::vector<const Message*> outgoing;
  std::vector<Message*> incoming;
  for (int gap = 1; gap < channel.size(); gap *= 2) {
    const int count = std::min(gap, channel.size() - gap);
    outgoing.clear();
    incoming.clear();
    std::size_t limit = 0;
    for (int i = 0; i < count; ++i) {
      const int origin = channel.neighbour(gap + i);
      outgoing.push_back(&messages_[at(channel.neighbour(i))]);
      incoming.push_back(&messages_[at(origin)]);
      limit += limits[at(origin)];
    }
    const int from = channel.neighbour(gap);
    channel.start_receive(from, packed_, packet_limit(at(count), limit));
    pack(outgoing, pack_);
    channel.start_send(channel.neighbour(-gap), pack_);
    channel.finish_receive(from);
    unpack(channel, packed_, from, incoming);
    channel.flush();
  }
}

}  // namespace topknot::collective
