// SPDX-License-Identifier: Apache-2.0
//
// Exactly which k of the values that the ranks hold are the largest, found without sending
// the values.
//
// Every rank counts the magnitudes it holds by bit pattern, the counts are added up, and
// then all know the bin that the k-th largest is in; another round counts inside that
// bin, until what is in it is all wanted or all equal. A magnitude changes little from
// step to step, so the first round has fine bins around the last threshold and coarse
// ones outside, and two rounds are nearly always enough. Ties go to the lower rank, then
// to the lower position.
//
// Few ranks send their counts to each other by themselves. So a round is one message long, each
// rank knows the counts of each, and of ties too how many each has; and as soon as no more
// are left in a bin than two rounds have counters, the ranks send these values instead of
// counts, which ends the search.
//
// Cost   few ranks: P-1 messages at once of at most `bins` words, or of what a rank has of the
//        last 2 `bins` values. Many ranks: a sum_counts() of `bins` words, ceil(log2 P) messages
//        one after another. With B bins the worst case is ceil(31 / log2 B) + 1 rounds and,
//        with many ranks, a word from each for the ties; from one step to the next it
//        is two rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "topknot/sparse.h"
#include "topknot/state.h"

namespace topknot::collective {

class GlobalTopK {
 public:
  /// Leaves in `held` those of its pairs that are among the `k` largest of all ranks';
  /// over all ranks exactly min(k, all there are) remain. Enters the phase "agree".
  /// Nonfinite values are reported on the channel; then only the end of the search is
  /// promised, not its result.
  void keep_largest(MessageChannel& channel, Sparse& held, std::size_t k);

  void visit_state(StateVisitor& visitor);

  /// How many counters a round has at most.
  static std::uint32_t bins(std::size_t k, int ranks);
  /// Whether so many ranks send their counts to each other by themselves.
  static bool at_once(int ranks) { return ranks <= 8; }

  /// How many each rank has kept, on the last call; empty where ranks do not know it of each
  /// other, being many.
  std::span<const std::uint64_t> kept_by() const noexcept { return kept_by_; }

  /// A magnitude that all that was kept reach and nothing that was dropped exceeds.
  float threshold() const noexcept;
  /// How many values the ranks held in all, on the last call that wanted any.
  std::uint64_t total() const noexcept { return total_; }

 private:
  // Magnitudes as bit patterns, [begin, end), cut into `bins` equal parts.
  struct Segment {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t bins;

    std::uint32_t width() const { return (end - begin + bins - 1) / bins; }
  };
  class Bins;
  // What is known so far: the k-th largest is in [begin, end), which was `bin` of the last
  // round, `need` of the `count` there are wanted, and all above are.
  struct Search {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint64_t need;
    std::uint64_t count;
    std::size_t bin;
  };

  void cut(const Search& search, bool first, std::uint32_t bins);
  void count();
  void add_up(MessageChannel& channel);
  void narrow(Search& search);
  void drop_outside(const Search& search);
  std::vector<std::uint32_t> counts_of_each(MessageChannel& channel,
                                            const Search& search) const;
  void keep_by_values(MessageChannel& channel, const Search& search, Sparse& held);
  void keep_ties(int rank, std::uint32_t bits, std::uint64_t need,
                 std::span<const std::uint32_t> ties, Sparse& held);

  std::vector<Segment> segments_;  // at most three, one behind the other
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint32_t> tables_;  // what counts_ is the sum of
  std::vector<std::uint32_t>
      counts_by_rank_;  // where ranks send them at once: one after another
  std::vector<std::uint64_t> kept_by_;  // by rank, as far as is known
  std::vector<std::uint32_t> left_;     // the values of all ranks that end the search
  std::span<const float> in_search_;    // what is held and may be the k-th largest
  std::vector<float> magnitudes_;       // where that is, after the first round
  std::uint64_t last_ = 0;              // the last threshold; 0 before there was one
  std::uint64_t total_ = 0;
};

}  // namespace topknot::collective
