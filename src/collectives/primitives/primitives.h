// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary that collectives are written in. A step has one shape: select, exchange,
// then, once everyone is known to be well, settle the residual and write the sum. Nothing is
// taken out of the residual before the exchange is through, so a step that fails loses
// nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "topknot/collective.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// The part of [0, n) that belongs to `part` when it is cut into `parts` nearly equal
/// ones, the longer ones first.
Region equal_region(std::uint64_t n, int parts, int part);

/// How messages travel. `direct`: P-1 messages from each rank, every byte sent no oftener
/// than it must. `log`: ceil(log2 P) packets (Bruck), in which messages are passed on,
/// for when latency rules.
enum class Route { direct, log };

/// Every rank gets every rank's pairs. `direct` is a ring, in which no rank sends more
/// than all blocks together, however unequal they are; in `log` a rank sends P-1 blocks,
/// its own ceil(log2 P) times.
class Allgather {
 public:
  /// blocks[r] becomes what rank r had in `mine`, all of it in regions[r] and at most
  /// `most` pairs, as the other ranks read it: where values are rounded, this rank's own
  /// too, and error[i] is what that took off mine.value[i].
  void run(MessageChannel& channel, SparseView mine, std::span<const Region> regions,
           std::uint64_t most, std::vector<Sparse>& blocks, std::vector<float>& error,
           Route route = Route::direct);

  /// The same for a message that this rank has coded for everyone by itself; it is used
  /// up.
  void run_coded(MessageChannel& channel, Message& mine, std::span<const Region> regions,
                 std::uint64_t most, std::vector<Sparse>& blocks,
                 Route route = Route::direct);

  /// The same for positions alone.
  void run_positions(MessageChannel& channel, std::span<const std::uint32_t> mine,
                     std::span<const Region> regions, std::uint64_t most,
                     std::vector<std::vector<std::uint32_t>>& blocks,
                     Route route = Route::direct);

  /// The same for a dense vector that lies in pieces: on entry x[regions[r]] is right at
  /// rank r; on return all of it is, everywhere, as the other ranks read it. error[i] is
  /// what rounding took off this rank's piece.
  void run_dense(MessageChannel& channel, std::span<const Region> regions,
                 std::span<float> x, std::vector<float>& error,
                 Route route = Route::direct);

 private:
  void pass_round(MessageChannel& channel, std::span<const std::size_t> limits,
                  Route route);
  void ring(MessageChannel& channel, std::span<const std::size_t> limits);
  void bruck(MessageChannel& channel, std::span<const std::size_t> limits);

  std::vector<Message> messages_;  // by rank of origin; kept to spare the allocations
  std::vector<std::size_t> limits_;
  Message pack_;
  Message packed_;
};

/// Every rank sends each rank its part: blocks[r] becomes what rank r had in parts[me].
/// parts[j] lies in regions[j] and has at most `most` pairs. `direct` is rotated, so that
/// no rank is the target of two at a time, with four messages on their way each way; in
/// `log` a message travels as many times as its distance has bits set. A rank's own part
/// is not rounded; errors[j][i] is what rounding took off parts[j].value[i], and
/// errors[j] is empty where nothing was rounded.
class Exchange {
 public:
  void run(MessageChannel& channel, std::span<const SparseView> parts,
           std::span<const Region> regions, std::uint64_t most,
           std::vector<Sparse>& blocks, std::vector<std::vector<float>>& errors,
           Route route = Route::direct);

 private:
  void rotate(MessageChannel& channel, std::size_t limit);
  void bruck(MessageChannel& channel, std::size_t limit);

  std::vector<Message> sent_;      // by rank of the receiver
  std::vector<Message> received_;  // by rank of the sender
  Message pack_;
  Message packed_;
};

/// Sums a dense vector over the ranks in rank order, so that the bits are the same on
/// every transport: everyone sends part j to rank j, which adds up, and the parts are
/// gathered. 2n(P-1)/P words a rank. A sum that overflows is reported to everyone. What
/// rounding took off at this rank, of what it sent and of the part that it added up, is
/// left in `error`, as long as `x`; empty where nothing was rounded.
class RankOrderSum {
 public:
  void run(MessageChannel& channel, std::span<float> x, std::vector<float>& error);

 private:
  Allgather allgather_;
  std::vector<Message> sent_;
  std::vector<Message> received_;
  std::vector<Region> regions_;
  std::vector<float> part_;
  std::vector<float> part_error_;
};

/// `pairs` of rank `root` reach every rank down a binomial tree, as everyone reads them.
class Broadcast {
 public:
  void run(MessageChannel& channel, int root, Region region, std::uint64_t most,
           Sparse& pairs, std::vector<float>& error);
  /// The same for positions alone.
  void run_positions(MessageChannel& channel, int root, Region region, std::uint64_t most,
                     std::vector<std::uint32_t>& index);
  /// The same for plain words, as many on every rank.
  void run_words(MessageChannel& channel, int root, std::span<std::uint32_t> words);

 private:
  void pass_down(MessageChannel& channel, int root, std::size_t limit);

  Message message_;
};

/// counts[i] becomes its sum over the ranks, everywhere: recursive doubling,
/// ceil(log2 P) messages of all the counts and two more where P is not a power of two.
void sum_counts(MessageChannel& channel, std::span<std::uint32_t> counts);

/// Every rank gets every rank's `mine`, all equally long, one after another in rank
/// order, in ceil(log2 P) messages.
std::vector<std::uint32_t> gather_words(MessageChannel& channel,
                                        std::span<const std::uint32_t> mine);

/// Swaps into `sum` the sum of all blocks: neighbours are merged, then neighbouring
/// results, a fixed tree over the ranks. The blocks are used up.
void add_up(std::vector<Sparse>& blocks, Sparse& sum);

/// Takes out of the residual what was sent: residual[index[i]] becomes error[i], or 0 when `error`
/// is empty.
void settle(std::span<const std::uint32_t> index, std::span<const float> error,
            std::span<float> residual);

/// No sum of one value from each block is larger in magnitude; not finite when a value is
/// not.
float largest_sum(std::span<const Sparse> blocks);

/// Writes `blocks`, of which no two share a coordinate, into `sum`, which is all zeros or the
/// memory of `grad`. place(b, position) is where in the vector a position of block b is;
/// `index` becomes all of these.
template <typename Place>
void write_disjoint(std::span<const Sparse> blocks, std::span<const float> grad,
                    std::span<float> sum, std::vector<std::uint32_t>& index,
                    const Place& place) {
  if (sum.data() == grad.data()) std::fill(sum.begin(), sum.end(), 0.0F);
  index.clear();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    for (std::size_t i = 0; i < blocks[b].size(); ++i) {
      index.push_back(place(static_cast<int>(b), blocks[b].index[i]));
      sum[index.back()] = blocks[b].value[i];
    }
}

/// Adds sparse vectors up into a dense one and keeps the list of what it touched.
class SumWriter {
 public:
  /// Writes the sum of `blocks`, added in their order, so that every rank rounds alike.
  /// `sum` is all zeros, or the memory of `grad`. False, with nothing written, when the
  /// sum might not be finite: when the blocks' largest magnitudes add up to infinity.
  [[nodiscard]] bool add(std::span<const Sparse> blocks, std::span<const float> grad,
                         std::span<float> sum);
  /// The coordinates of the last sum, each once.
  std::span<const std::uint32_t> index() const noexcept { return index_; }

 private:
  std::vector<std::uint64_t> seen_;  // one bit a coordinate, all clear between calls
  std::vector<std::uint32_t> index_;
};

}  // namespace topknot::collective
