// SPDX-License-Identifier: Apache-2.0
//
// Exchanges among some of the ranks: those that stand in a circle of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/dropped_values.h"
#include "collectives/primitives/message_channel.h"
#include "topknot/sparse.h"

namespace topknot::collective {

/// The ranks first, first + stride, ...: `size` of them, of which this rank is number
/// `place`.
struct Team {
  int first = 0;
  int stride = 1;
  int size = 1;
  int place = 0;

  /// The rank of a member.
  int rank(int member) const noexcept { return first + stride * member; }
  /// The member `distance` places to the right, in a circle; `distance` is above -size.
  int member(int distance) const noexcept { return (place + distance + size) % size; }
};

/// Every member gets every member's pairs, in ceil(log2 size) packets (Bruck): each sends
/// size - 1 blocks in all.
class TeamGather {
 public:
  /// blocks[j] becomes what member j had in `mine`, all of it in regions[j] and at most
  /// `most` pairs, as the other members read it. error[i] is what rounding took off
  /// mine.value[i].
  void run(MessageChannel& channel, const Team& team, SparseView mine,
           std::span<const Region> regions, std::uint64_t most,
           std::vector<Sparse>& blocks, std::vector<float>& error);

 private:
  void pass_round(MessageChannel& channel, const Team& team,
                  std::span<const Region> regions, std::uint64_t most);

  std::vector<Message> messages_;  // by member of origin
  Message pack_;
  Message packed_;
};

/// Sums sparse vectors over a team of a power of two, keeping at most `most` pairs after
/// each of log2 size rounds, in which a member merges with the one whose place differs in
/// one bit.
///
/// After round i the 2^i members whose places agree but for the lowest i bits hold the
/// same bits: each uses its own set as its partner reads it, and adds that of the lower
/// place first. They round and drop alike, and the lowest of them alone keeps that in
/// dropped.
class Butterfly {
 public:
  void run(MessageChannel& channel, const Team& team, Region region, std::size_t most,
           Sparse& held, DroppedValues& dropped);

 private:
  Message out_;
  Message in_;
  Sparse theirs_;
  Sparse merged_;
  std::vector<float> error_;
};

}  // namespace topknot::collective
