// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/broadcast.h"

namespace topknot::collective {

void Broadcast::run(MessageChannel& channel, int root, Region region, std::uint64_t most,
                    Sparse& pairs, std::vector<float>& error) {
  error.clear();
  if (channel.size() == 1) return;
  if (channel.rank() == root)
    channel.code(pairs, region, MessageChannel::kEveryone, message_, error);
  pass_down(channel, root, channel.limit(most, region.size()));
  channel.read(message_, root, MessageChannel::kEveryone, region, most, pairs);
}

void Broadcast::run_positions(MessageChannel& channel, int root, Region region,
                              std::uint64_t most, std::vector<std::uint32_t>& index) {
  if (channel.size() == 1) return;
  if (channel.rank() == root)
    channel.code_positions(index, region, MessageChannel::kEveryone, message_);
  pass_down(channel, root, channel.limit(most, region.size()));
  channel.read_positions(message_, root, MessageChannel::kEveryone, region, most, index);
}

void Broadcast::run_words(MessageChannel& channel, int root,
                          std::span<std::uint32_t> words) {
  if (channel.size() == 1) return;
  if (channel.rank() == root)
    channel.code_words(words, MessageChannel::kEveryone, message_);
  pass_down(channel, root, MessageChannel::words_limit(words.size()));
  channel.read_words(message_, root, MessageChannel::kEveryone, words);
}

// Counting from the root, rank v hears from v without its highest bit and tells all v +
// bit for bits above that.
void Broadcast::pass_down(MessageChannel& channel, int root, std::size_t limit) {
  const int ranks = channel.size();
  const int v = (channel.rank() - root + ranks) % ranks;
  int bit = 1;
  while (bit <= v) bit *= 2;
  if (v != 0) {
    const int from = (v - bit / 2 + root) % ranks;
    channel.start_receive(from, message_, limit);
    channel.finish_receive(from);
  }
  for (; v + bit < ranks; bit *= 2)
    channel.start_send((v + bit + root) % ranks, message_);
  channel.flush();
}

}  // namespace topknot::collective
