// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/words.h"

#include <algorithm>
#include <numeric>

#include "collectives/primitives/bruck.h"
#include "core/plant.h"

namespace topknot::collective {

void sum_counts(MessageChannel& channel, std::span<std::uint32_t> counts) {
  const int ranks = channel.size();
  const int me = channel.rank();
  int even = 1;  // the largest power of two that is not above `ranks`
  while (even * 2 <= ranks) even *= 2;
  const int extra = ranks - even;
  Message out;
  Message in;
  std::vector<std::uint32_t> theirs(counts.size());
  const std::size_t limit = MessageChannel::words_limit(counts.size());
  const auto send = [&](int to) {
    channel.code_words(counts, to, out);
    channel.start_send(to, out);
  };
  const auto receive = [&](int from) {
    channel.start_receive(from, in, limit);
    channel.finish_receive(from);
    channel.read_words(in, from, me, theirs);
  };
  const auto add = [&] {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += theirs[i];
  };

  // A rank above the power of two hands in its counts and receives the sums in the end.
  if (me >= even) {
    send(me - even);
    channel.flush();
    receive(me - even);
    std::copy(theirs.begin(), theirs.end(), counts.begin());
    return;
  }
  if (me < extra) {
    receive(me + even);
    add();
  }
  for (int bit = 1; bit < even; bit *= 2) {
    send(me ^ bit);
    receive(me ^ bit);
    channel.flush();
    add();
  }
  if (me < extra) send(me + even);
  channel.flush();
}

std::vector<std::uint32_t> gather_words(MessageChannel& channel,
                                        std::span<const std::uint32_t> mine) {
  const std::size_t width = mine.size();
  // Block i is that of the i-th rank to the right.
  std::vector<std::uint32_t> held(mine.begin(), mine.end());
  held.resize(at(channel.size()) * width);
  Message out;
  Message in;
  for (const BruckRound& round : bruck_rounds(channel.everyone())) {
    const std::size_t words = at(round.count) * width;
    channel.start_receive(round.from, in, MessageChannel::words_limit(words));
    channel.code_words(std::span(held).first(words), round.to, out);
    channel.start_send(round.to, out);
    channel.finish_receive(round.from);
    channel.read_words(in, round.from, channel.rank(),
                       std::span(held).subspan(at(round.gap) * width, words));
    channel.flush();
  }
  if (TOPKNOT_PLANT(words_in_wrong_rank_order)) return held;
  const std::size_t first = at(channel.size() - channel.rank()) * width;
  std::rotate(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(first),
              held.end());
  return held;
}

void gather_at_once(MessageChannel& channel, std::span<const std::uint32_t> mine,
                    std::span<const std::uint32_t> lengths,
                    std::vector<std::uint32_t>& all) {
  Message out;
  std::vector<Message> in(lengths.size());
  channel.code_words(mine, MessageChannel::kEveryone, out);
  for (int distance = 1; distance < channel.size(); ++distance) {
    const int from = channel.neighbour(-distance);
    channel.start_receive(from, in[at(from)],
                          MessageChannel::words_limit(lengths[at(from)]));
    channel.start_send(channel.neighbour(distance), out);
  }
  all.resize(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}));
  std::size_t first = 0;
  for (int from = 0; from < channel.size(); ++from) {
    const auto theirs = std::span(all).subspan(first, lengths[at(from)]);
    first += theirs.size();
    if (from == channel.rank()) {
      std::ranges::copy(mine, theirs.begin());
      continue;
    }
    channel.finish_receive(from);
    channel.read_words(in[at(from)], from, MessageChannel::kEveryone, theirs);
  }
  channel.flush();
}

}  // namespace topknot::collective
