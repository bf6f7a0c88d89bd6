// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/primitives.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "core/merge.h"
#include "topknot/error.h"

namespace topknot::collective {

Region equal_region(std::uint64_t n, int parts, int part) {
  const auto p = static_cast<std::uint64_t>(parts);
  const auto i = static_cast<std::uint64_t>(part);
  const std::uint64_t length = n / p;
  const std::uint64_t longer = n % p;
  const std::uint64_t begin = i * length + std::min(i, longer);
  return {begin, begin + length + (i < longer ? 1 : 0)};
}

void RankOrderSum::run(MessageChannel& channel, std::span<float> x,
                       std::vector<float>& error) {
  const int ranks = channel.size();
  const int me = channel.rank();
  const bool rounded = channel.values() != core::Values::f32 && ranks > 1;
  error.assign(rounded ? x.size() : 0, 0.0F);
  if (ranks == 1) return;
  for (auto* by_rank : {&sent_, &received_}) by_rank->resize(at(ranks));
  regions_.clear();
  for (int part = 0; part < ranks; ++part)
    regions_.push_back(equal_region(x.size(), ranks, part));
  const auto piece = [&](std::span<float> whole, int part) {
    return whole.subspan(regions_[at(part)].begin, regions_[at(part)].size());
  };
  const auto keep = [&](int part) {
    std::copy(part_error_.begin(), part_error_.end(),
              error.begin() + static_cast<std::ptrdiff_t>(regions_[at(part)].begin));
  };

  const std::span<float> own = piece(x, me);
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = channel.neighbour(distance);
    const int from = channel.neighbour(-distance);
    channel.start_receive(from, received_[at(from)],
                          channel.limit(own.size(), own.size()));
    channel.code_dense(piece(x, to), to, sent_[at(to)], part_error_);
    keep(to);
    channel.start_send(to, sent_[at(to)]);
  }
  part_.assign(own.size(), 0.0F);
  for (int distance = 1; distance < ranks; ++distance)
    channel.finish_receive(channel.neighbour(-distance));
  for (int from = 0; from < ranks; ++from) {
    if (from != me) {
      channel.read_dense(received_[at(from)], from, me, part_, /*add=*/true);
    } else {
      for (std::size_t i = 0; i < own.size(); ++i) part_[i] += own[i];
    }
  }
  channel.flush();
  // Said here because steps of a scale cannot say infinity.
  channel.report_unless_finite(part_);
  std::copy(part_.begin(), part_.end(), own.begin());
  channel.enter("gather of the sums");
  allgather_.run_dense(channel, regions_, x, part_error_);
  keep(me);
}

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

  // The ranks above the power of two hand theirs in and are told in the end.
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
  const auto ranks = at(channel.size());
  const std::size_t width = mine.size();
  // Held in Bruck's order: block i is that of the i-th rank to the right.
  std::vector<std::uint32_t> held(mine.begin(), mine.end());
  held.resize(ranks * width);
  Message out;
  Message in;
  for (std::size_t gap = 1; gap < ranks; gap *= 2) {
    const std::size_t words = std::min(gap, ranks - gap) * width;
    const int to = channel.neighbour(-static_cast<int>(gap));
    const int from = channel.neighbour(static_cast<int>(gap));
    channel.start_receive(from, in, MessageChannel::words_limit(words));
    channel.code_words(std::span(held).first(words), to, out);
    channel.start_send(to, out);
    channel.finish_receive(from);
    channel.read_words(in, from, channel.rank(),
                       std::span(held).subspan(gap * width, words));
    channel.flush();
  }
  std::rotate(
      held.begin(),
      held.begin() + static_cast<std::ptrdiff_t>((ranks - at(channel.rank())) * width),
      held.end());
  return held;
}

void add_up(std::vector<Sparse>& blocks, Sparse& sum) {
  for (std::size_t width = 1; width < blocks.size(); width *= 2)
    for (std::size_t i = 0; i + width < blocks.size(); i += 2 * width) {
      core::add(blocks[i], blocks[i + width], sum);
      std::swap(blocks[i], sum);
    }
  std::swap(sum, blocks[0]);
}

void settle(std::span<const std::uint32_t> index, std::span<const float> error,
            std::span<float> residual) {
  if (error.empty()) return core::erase(index, residual);
  if (error.size() != index.size())
    throw ContractError("There are " + std::to_string(error.size()) +
                        " rounding errors for " + std::to_string(index.size()) +
                        " positions.");
  for (std::size_t i = 0; i < index.size(); ++i) residual[index[i]] = error[i];
}

// Magnitudes are compared as bit patterns: eight at a time, and NaN is the largest.
float largest_sum(std::span<const Sparse> blocks) {
  float sum = 0;
  for (const Sparse& block : blocks) {
    std::uint32_t largest = 0;
    for (const float value : block.value)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
    sum += std::bit_cast<float>(largest);
  }
  return sum;
}

bool SumWriter::add(std::span<const Sparse> blocks, std::span<const float> grad,
                    std::span<float> sum) {
  if (!std::isfinite(largest_sum(blocks))) return false;
  if (sum.data() == grad.data()) std::fill(sum.begin(), sum.end(), 0.0F);
  if (blocks.size() == 1) {
    index_.assign(blocks[0].index.begin(), blocks[0].index.end());
    core::scatter_add(blocks[0], sum);
    return true;
  }
  seen_.resize(sum.size() / 64 + 1);
  index_.clear();
  for (const Sparse& block : blocks) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint32_t position = block.index[i];
      std::uint64_t& word = seen_[position / 64];
      const std::uint64_t bit = std::uint64_t{1} << (position % 64);
      if ((word & bit) == 0) index_.push_back(position);
      word |= bit;
      sum[position] += block.value[i];
    }
  }
  for (const std::uint32_t position : index_) seen_[position / 64] = 0;
  return true;
}

}  // namespace topknot::collective
