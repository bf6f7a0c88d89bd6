// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/route.h"
#include "collectives/primitives/subgroup.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// Every rank gets every rank's block. A block is coded once, by the rank it comes from, and
/// passed on as it is. In a `ring` no rank sends more than all blocks together, however unequal
/// they are; `direct` waits for one message only, and a rank sends its own block P-1 times, all
/// at once; in `log` a rank sends P-1 blocks, its own ceil(log2 P) times.
class Allgather {
 public:
  /// blocks[r] becomes what rank r had in `mine`, all of it in regions[r] and at most
  /// `most` pairs, as the other ranks read it: where values are rounded, this rank's own
  /// too, and error[i] is what that took off mine.value[i].
  void run(MessageChannel& channel, SparseView mine, std::span<const Region> regions,
           std::uint64_t most, std::vector<Sparse>& blocks, std::vector<float>& error,
           Route route = Route::ring);

  /// The same among the members of `group` alone; regions and blocks are theirs.
  void run_among(MessageChannel& channel, const Subgroup& group, SparseView mine,
                 std::span<const Region> regions, std::uint64_t most,
                 std::vector<Sparse>& blocks, std::vector<float>& error, Route route);

  /// The same for a message that this rank has coded for everyone by itself; it is used
  /// up.
  void run_coded(MessageChannel& channel, Message& mine, std::span<const Region> regions,
                 std::uint64_t most, std::vector<Sparse>& blocks,
                 Route route = Route::ring);

  /// The same for positions alone.
  void run_positions(MessageChannel& channel, std::span<const std::uint32_t> mine,
                     std::span<const Region> regions, std::uint64_t most,
                     std::vector<std::vector<std::uint32_t>>& blocks,
                     Route route = Route::ring);

  /// The same for a dense vector that lies in pieces: on entry x[regions[r]] is right at
  /// rank r; on return all of it is, on every rank, as the other ranks read it. error[i] is
  /// what rounding took off this rank's piece.
  void run_dense(MessageChannel& channel, std::span<const Region> regions,
                 std::span<float> x, std::vector<float>& error,
                 Route route = Route::ring);

 private:
  void pass_round(MessageChannel& channel, const Subgroup& group, Route route);
  void ring(MessageChannel& channel, const Subgroup& group);
  void direct(MessageChannel& channel, const Subgroup& group);
  void bruck(MessageChannel& channel, const Subgroup& group);
  void set_limits(const MessageChannel& channel, std::span<const Region> regions,
                  std::uint64_t most);
  void read_blocks(MessageChannel& channel, const Subgroup& group,
                   std::span<const Region> regions, std::uint64_t most, int but,
                   std::vector<Sparse>& blocks) const;

  std::vector<Message> messages_;    // by member of origin; kept to spare the allocations
  std::vector<std::size_t> limits_;  // of their lengths
  Message pack_;
  Message packed_;
};

}  // namespace topknot::collective
