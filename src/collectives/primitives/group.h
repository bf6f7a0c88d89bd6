// SPDX-License-Identifier: Apache-2.0
//
// Some of a channel's ranks as a channel of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topknot/error.h"
#include "topknot/transport.h"

namespace topknot::collective {

/// The channel between `members`, ranks of `link` of which this rank is one, numbered in
/// the order they are given. `link` must outlive it. A rank may be in several groups over
/// one `link` as long as it meets nobody in two of them. Sub-channels are those of
/// `link`, so all ranks of `link`, each with a group of its own, ask for them in one
/// order. There is no native allreduce. A LinkError has the peer's number in the group;
/// for a rank that is not in it, size() more than the number in `link`.
std::unique_ptr<Transport> make_group(Transport& link, std::vector<int> members);

/// `error`, which came up in a group of `members`, with the peer's number in the link
/// that the group is over.
template <typename Error>
Error seen_from_outside(const Error& error, const std::vector<int>& members) {
  const auto size = static_cast<int>(members.size());
  if (error.peer() >= size) return Error(error.peer() - size, error.what());
  const int rank = members[static_cast<std::size_t>(error.peer())];
  return Error(rank, std::string(error.what()) + " Rank " + std::to_string(error.peer()) +
                         " of this group is rank " + std::to_string(rank) +
                         " of the job.");
}

/// Runs `step`, which talks in a group of `members`; errors come out as seen from outside.
template <typename Step>
auto in_group(const std::vector<int>& members, Step step) {
  try {
    return step();
  } catch (const DisagreementError& error) {
    throw seen_from_outside(error, members);
  } catch (const LinkError& error) {
    throw seen_from_outside(error, members);
  }
}

}  // namespace topknot::collective
