// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/team.h"

#include <algorithm>

#include "collectives/primitives/packet.h"
#include "core/merge.h"

namespace topknot::collective {

void TeamGather::run(MessageChannel& channel, const Team& team, SparseView mine,
                     std::span<const Region> regions, std::uint64_t most,
                     std::vector<Sparse>& blocks, std::vector<float>& error) {
  blocks.resize(at(team.size));
  if (team.size == 1) {
    blocks[0].clear();
    blocks[0].append(mine);
    error.clear();
    return;
  }
  messages_.resize(at(team.size));
  channel.code(mine, regions[at(team.place)], MessageChannel::kEveryone,
               messages_[at(team.place)], error);
  pass_round(channel, team, regions, most);
  for (int origin = 0; origin < team.size; ++origin)
    channel.read(messages_[at(origin)], team.rank(origin), MessageChannel::kEveryone,
                 regions[at(origin)], most, blocks[at(origin)]);
}

// After the round with `gap` this member holds the blocks of itself and of the 2*gap - 1
// members to its right.
void TeamGather::pass_round(MessageChannel& channel, const Team& team,
                            std::span<const Region> regions, std::uint64_t most) {
  std::vector<const Message*> outgoing;
  std::vector<Message*> incoming;
  for (int gap = 1; gap < team.size; gap *= 2) {
    const int count = std::min(gap, team.size - gap);
    outgoing.clear();
    incoming.clear();
    std::size_t limit = 0;
    for (int i = 0; i < count; ++i) {
      const int origin = team.member(gap + i);
      outgoing.push_back(&messages_[at(team.member(i))]);
      incoming.push_back(&messages_[at(origin)]);
      limit += channel.limit(most, regions[at(origin)].size());
    }
    const int from = team.rank(team.member(gap));
    channel.start_receive(from, packed_, packet_limit(at(count), limit));
    pack(outgoing, pack_);
    channel.start_send(team.rank(team.member(-gap)), pack_);
    channel.finish_receive(from);
    unpack(channel, packed_, from, incoming);
    channel.flush();
  }
}

void Butterfly::run(MessageChannel& channel, const Team& team, Region region,
                    std::size_t most, Sparse& held, DroppedValues& dropped) {
  const std::size_t limit = channel.limit(most, region.size());
  for (int bit = 1; bit < team.size; bit *= 2) {
    const int partner = team.rank(team.place ^ bit);
    channel.start_receive(partner, in_, limit);
    channel.code(held, region, partner, out_, error_);
    channel.start_send(partner, out_);
    if ((team.place & (bit - 1)) == 0) dropped.keep_error(held.index, error_);
    if (!error_.empty()) channel.read(out_, channel.rank(), partner, region, most, held);
    channel.finish_receive(partner);
    channel.read(in_, partner, channel.rank(), region, most, theirs_);
    channel.flush();

    const bool lower = (team.place & bit) == 0;
    core::add(lower ? held : theirs_, lower ? theirs_ : held, merged_);
    std::swap(held, merged_);
    channel.report_unless_finite(held.value);
    dropped.cut(held, most, /*keeper=*/(team.place & (2 * bit - 1)) == 0);
  }
}

}  // namespace topknot::collective
