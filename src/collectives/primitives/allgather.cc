// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/allgather.h"

#include <algorithm>
#include <utility>

#include "collectives/primitives/bruck.h"
#include "collectives/primitives/packet.h"

namespace topknot::collective {

void Allgather::run(MessageChannel& channel, SparseView mine,
                    std::span<const Region> regions, std::uint64_t most,
                    std::vector<Sparse>& blocks, std::vector<float>& error, Route route) {
  run_among(channel, channel.everyone(), mine, regions, most, blocks, error, route);
}

void Allgather::run_among(MessageChannel& channel, const Subgroup& group, SparseView mine,
                          std::span<const Region> regions, std::uint64_t most,
                          std::vector<Sparse>& blocks, std::vector<float>& error,
                          Route route) {
  if (group.size() == 1) {
    blocks.resize(1);
    blocks[0].clear();
    blocks[0].append(mine);
    error.clear();
    return;
  }
  set_limits(channel, regions, most);
  channel.code(mine, regions[at(group.place())], MessageChannel::kEveryone,
               messages_[at(group.place())], error);
  pass_round(channel, group, route);
  read_blocks(channel, group, regions, most, group.place(), blocks);
  MessageChannel::read_back(messages_[at(group.place())], mine,
                            blocks[at(group.place())]);
}

void Allgather::run_coded(MessageChannel& channel, Message& mine,
                          std::span<const Region> regions, std::uint64_t most,
                          std::vector<Sparse>& blocks, Route route) {
  set_limits(channel, regions, most);
  std::swap(messages_[at(channel.rank())], mine);
  pass_round(channel, channel.everyone(), route);
  constexpr int kNobody = -1;
  read_blocks(channel, channel.everyone(), regions, most, kNobody, blocks);
}

void Allgather::run_positions(MessageChannel& channel,
                              std::span<const std::uint32_t> mine,
                              std::span<const Region> regions, std::uint64_t most,
                              std::vector<std::vector<std::uint32_t>>& blocks,
                              Route route) {
  blocks.resize(at(channel.size()));
  blocks[at(channel.rank())].assign(mine.begin(), mine.end());
  if (channel.size() == 1) return;
  set_limits(channel, regions, most);
  channel.code_positions(mine, regions[at(channel.rank())], MessageChannel::kEveryone,
                         messages_[at(channel.rank())]);
  pass_round(channel, channel.everyone(), route);
  for (int origin = 0; origin < channel.size(); ++origin)
    if (origin != channel.rank())
      channel.read_positions(messages_[at(origin)], origin, MessageChannel::kEveryone,
                             regions[at(origin)], most, blocks[at(origin)]);
}

void Allgather::run_dense(MessageChannel& channel, std::span<const Region> regions,
                          std::span<float> x, std::vector<float>& error, Route route) {
  error.clear();
  if (channel.size() == 1) return;
  set_limits(channel, regions, x.size());
  channel.code_dense(part_of(x, regions[at(channel.rank())]), MessageChannel::kEveryone,
                     messages_[at(channel.rank())], error);
  pass_round(channel, channel.everyone(), route);
  for (int origin = 0; origin < channel.size(); ++origin)
    channel.read_dense(messages_[at(origin)], origin, MessageChannel::kEveryone,
                       part_of(x, regions[at(origin)]), /*add=*/false);
}

// Of a region no more pairs can come than it has coordinates.
void Allgather::set_limits(const MessageChannel& channel, std::span<const Region> regions,
                           std::uint64_t most) {
  messages_.resize(regions.size());
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(channel.limit(most, region.size()));
}

// Reads what all members have sent, `but` that of one.
void Allgather::read_blocks(MessageChannel& channel, const Subgroup& group,
                            std::span<const Region> regions, std::uint64_t most, int but,
                            std::vector<Sparse>& blocks) const {
  blocks.resize(at(group.size()));
  for (int origin = 0; origin < group.size(); ++origin)
    if (origin != but)
      channel.read(messages_[at(origin)], group.rank(origin), MessageChannel::kEveryone,
                   regions[at(origin)], most, blocks[at(origin)]);
}

void Allgather::pass_round(MessageChannel& channel, const Subgroup& group, Route route) {
  if (route == Route::ring) ring(channel, group);
  if (route == Route::direct) direct(channel, group);
  if (route == Route::log) bruck(channel, group);
  for (const Message& message : messages_) channel.note_nonfinite(message);
}

void Allgather::ring(MessageChannel& channel, const Subgroup& group) {
  const int left = group.rank(group.member(-1));
  const int right = group.rank(group.member(+1));
  const int hops = group.size() - 1;
  for (int hop = 1; hop <= hops; ++hop) {
    const int origin = group.member(-hop);
    channel.start_receive(left, messages_[at(origin)], limits_[at(origin)]);
  }
  for (int hop = 0; hop < hops; ++hop) {
    channel.start_send(right, messages_[at(group.member(-hop))]);
    channel.finish_receive(left);
  }
  channel.flush();
}

void Allgather::direct(MessageChannel& channel, const Subgroup& group) {
  for (int distance = 1; distance < group.size(); ++distance) {
    const int origin = group.member(-distance);
    channel.start_receive(group.rank(origin), messages_[at(origin)], limits_[at(origin)]);
    channel.start_send(group.rank(group.member(distance)), messages_[at(group.place())]);
  }
  for (int distance = 1; distance < group.size(); ++distance)
    channel.finish_receive(group.rank(group.member(-distance)));
  channel.flush();
}

void Allgather::bruck(MessageChannel& channel, const Subgroup& group) {
  std::vector<const Message*> outgoing;
  std::vector<Message*> incoming;
  for (const BruckRound& round : bruck_rounds(group)) {
    outgoing.clear();
    incoming.clear();
    std::size_t limit = 0;
    for (int i = 0; i < round.count; ++i) {
      const int origin = group.member(round.gap + i);
      outgoing.push_back(&messages_[at(group.member(i))]);
      incoming.push_back(&messages_[at(origin)]);
      limit += limits_[at(origin)];
    }
    channel.start_receive(round.from, packed_, packet_limit(at(round.count), limit));
    pack(outgoing, pack_);
    channel.start_send(round.to, pack_);
    channel.finish_receive_packet(round.from);
    unpack(channel, packed_, round.from, incoming);
    channel.flush();
  }
}

}  // namespace topknot::collective
