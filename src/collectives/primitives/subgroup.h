// SPDX-License-Identifier: Apache-2.0
//
// Some of a job's ranks, in a circle of their own; and a transport between them alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "topknot/error.h"
#include "topknot/transport.h"

namespace topknot::collective {

/// A rank, or another small number that is never negative, as the place in a vector.
constexpr std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// Ranks in a fixed order, of which this rank is one. A member is its number in that order.
class Subgroup {
 public:
  /// Throws ContractError where rank `me` is not among `ranks`.
  Subgroup(std::vector<int> ranks, int me);
  /// The ranks first, first + stride, ...: `size` of them.
  static Subgroup strided(int first, int stride, int size, int me);

  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  /// This rank's member.
  int place() const noexcept { return place_; }
  /// The rank of a member.
  int rank(int member) const noexcept { return ranks_[at(member)]; }
  /// The member `distance` places to the right, in a circle; `distance` may be negative.
  int member(int distance) const noexcept;
  /// The member that `rank` is; size() + rank where it is none.
  int member_of(int rank) const noexcept;

 private:
  std::vector<int> ranks_;
  int place_;
};

/// "1, 2, 3, 6": into how many equal subgroups so many ranks can be cut.
std::string divisors_of(int ranks);

/// The transport between the members of `group`, numbered as there. `link` must outlive it. A
/// rank may be in several subgroups over one `link` as long as it meets nobody in two of
/// them. Sub-channels are those of `link`, so all ranks of `link`, each with a subgroup of
/// its own, ask for them in one order. There is no native allreduce. A LinkError has the
/// peer's member; for a rank that is none, size() more than the rank.
std::unique_ptr<Transport> make_subgroup_transport(Transport& link, Subgroup group);

/// `error`, which was thrown in `group`, with the peer's rank in the job. The sentence ends with
/// what the ranks in it are in the job: the peer, and this rank.
template <typename Error>
Error seen_from_job(const Error& error, const Subgroup& group) {
  if (error.peer() >= group.size())
    return Error(error.peer() - group.size(), error.what());
  const int rank = group.rank(error.peer());
  return Error(rank, std::string(error.what()) + " Rank " + std::to_string(error.peer()) +
                         " of this group is rank " + std::to_string(rank) +
                         " of the job, rank " + std::to_string(group.place()) +
                         " is rank " + std::to_string(group.rank(group.place())) + ".");
}

/// Runs `step`, which talks in `group`; errors come out as seen from the job.
template <typename Step>
auto in_subgroup(const Subgroup& group, Step step) {
  try {
    return step();
  } catch (const DisagreementError& error) {
    throw seen_from_job(error, group);
  } catch (const LinkError& error) {
    throw seen_from_job(error, group);
  }
}

}  // namespace topknot::collective
