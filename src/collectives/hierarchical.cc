// SPDX-License-Identifier: Apache-2.0
//
// hierarchical: dense inside a node, any other collective between nodes.
//
//   fold      the gradient into the residual
//   scatter   inside the node of G ranks: member j adds up shard j of everyone's residual
//   between   the j-th members of all nodes reduce shard j by the inner collective
//   gather    inside the node: the sums of all shards
//   settle    member j keeps the residual of shard j; that of the others becomes zero there
//
//           node 0          node 1
//        0   1   2   3    4   5   6   7       shard j of rank 4g + j goes to member j
//        |   |   |   |    |   |   |   |       of node g; then ranks j and 4 + j run the
//        +---|---|---|----+   |   |   |       inner collective on it, for all j at once
//            +---|---|--------+  ...
//
// A node's ranks share a host, and what is fast there is dense: no selection, no
// positions. Between nodes it is the network that counts, and each of the G columns
// sends for one shard, with k/G of the coordinates, so that a node as a whole sends as
// much as one rank of a job with N = P/G ranks. Selecting from the sum of a node is
// nearer to the exact top-k than selecting from each rank, too.
//
// The residual moves. A rank hands its residual of shard j to member j with the gradient, on
// every step, and what the inner collective does not send stays with member j: all of a
// node's residual of a shard is in one place, as if the node were one rank.
//
// Nonfinite steps. When one member's gradient is nonfinite, all members of its node know
// after the scatter, since each receives from each. They give the inner collective a gradient
// of NaN to fold, so it finds the step nonfinite on all nodes, and after the gather the
// members of other columns know too. A step that the inner collective finds nonfinite by
// itself becomes known in the same way. The residual is not changed before that.
//
// Cost    2(G-1) alpha + (n(G-1)/G + 2k) beta inside a node, f32 whatever values= says,
//         and between nodes that of the inner collective for P/G ranks, n/G and k/G.
// Bound   between nodes a rank sends what the inner collective may for k' / G, where k'
//         is k rounded up to a multiple of G; with knot at most 4k'/G words.
// Keeps   in the residual of a shard's owner what the inner collective leaves there.
// Paper   Shi et al., "Towards Scalable Distributed Training of Deep Learning on Public
//         Cloud Clusters" (HiTopKComm), MLSys 2021.
// Departs Any collective may run between the nodes; theirs gathers all selections. Residuals
//         are exact: theirs keeps each rank's own. Nodes need not be full: where hosts
//         have unequal numbers of ranks, groups are as large as divides all of them.

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/primitives/allgather.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/step_guard.h"
#include "collectives/primitives/subgroup.h"
#include "collectives/primitives/sum_writer.h"
#include "core/names.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::collective {
namespace {

/// The nodes, each with its ranks in order and all with equally many.
using Nodes = std::vector<std::vector<int>>;

/// The hosts; where they have unequal numbers of ranks, cut into the largest groups that
/// fit all.
Nodes nodes_on_hosts(const Transport& link) {
  std::vector<std::pair<int, std::vector<int>>> hosts;  // in order of their first rank
  for (int rank = 0; rank < link.size(); ++rank) {
    const int host = link.node_of(rank);
    auto found =
        std::ranges::find(hosts, host, [](const auto& one) { return one.first; });
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {host, {}});
    found->second.push_back(rank);
  }
  std::size_t size = 0;
  for (const auto& [host, ranks] : hosts) size = std::gcd(size, ranks.size());
  Nodes nodes;
  for (const auto& [host, ranks] : hosts)
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (i % size == 0) nodes.emplace_back();
      nodes.back().push_back(ranks[i]);
    }
  return nodes;
}

Nodes nodes_of(int ranks, int size) {
  if (ranks % size != 0) {
    throw ConfigError("hierarchical:group=" + std::to_string(size) + " does not divide " +
                      std::to_string(ranks) + " ranks; these do: " + divisors_of(ranks) +
                      ".");
  }
  Nodes nodes(at(ranks / size));
  for (int rank = 0; rank < ranks; ++rank) nodes[at(rank / size)].push_back(rank);
  return nodes;
}

/// The tensors of `region`; what is cut off from one is flat.
Layout cut(const Layout& layout, Region region) {
  Layout part;
  for (const TensorSlot& tensor : layout.tensors) {
    const std::uint64_t begin = std::max(tensor.offset, region.begin);
    const std::uint64_t end = std::min(tensor.offset + tensor.size(), region.end);
    if (begin >= end) continue;
    const bool whole = end - begin == tensor.size();
    part.tensors.push_back({tensor.name, begin - region.begin,
                            whole ? tensor.shape : std::vector{end - begin}});
  }
  return part;
}

/// Nodes are rows; a column has the members with one number of all nodes.
struct Grid {
  Subgroup node;    ///< this rank's
  Subgroup column;  ///< this rank's
};

Grid grid_of(const Nodes& nodes, int rank) {
  for (const std::vector<int>& ranks : nodes) {
    if (std::ranges::find(ranks, rank) == ranks.end()) continue;
    Subgroup node(ranks, rank);
    std::vector<int> column;
    for (const std::vector<int>& other : nodes) column.push_back(other[at(node.place())]);
    return {std::move(node), Subgroup(std::move(column), rank)};
  }
  throw ContractError("Rank " + std::to_string(rank) + " is in no node.");
}

class Hierarchical final : public Collective {
 public:
  Hierarchical(Transport& link, Compressor& compressor, const Layout& layout,
               Params& params)
      : grid_(find_grid(link, params)),
        inside_(make_subgroup_transport(link, grid_.node)),
        between_(make_subgroup_transport(link, grid_.column)),
        channel_(*inside_, Spec{"hierarchical", params}.str(), fixed_),
        layout_(
            cut(layout, equal_region(layout.size(), inside_->size(), inside_->rank()))),
        inner_(make_inner(compressor, params)) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(residual.size(), k);
    guard_.fold(residual, grad);
    cut_shards(residual.size());
    in_subgroup(grid_.node, [&] { scatter(residual.host()); });
    const Reduced reduced = in_subgroup(grid_.column, [&] { return reduce_between(k); });
    in_subgroup(grid_.node, [&] { gather(reduced); });
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_residual(residual.host());
    return write(reduced, grad, sum);
  }

  bool needs_host() const noexcept override { return true; }

  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }

 private:
  static Grid find_grid(const Transport& link, Params& params) {
    const auto size = static_cast<int>(params.integer(
        "group", 0, 0, 1 << 16, "ranks in a node; 0 asks the transport which share one"));
    // For one rank any size is right: parameters are checked by one before a job starts.
    const bool asked = size != 0 && link.size() > 1;
    return grid_of(asked ? nodes_of(link.size(), size) : nodes_on_hosts(link),
                   link.rank());
  }

  // The inner collective reads its parameters out of ours.
  std::unique_ptr<Collective> make_inner(Compressor& compressor, Params& params) const {
    const std::string name = params.text(
        "inner", "knot", "the collective between nodes; it gets the other parameters");
    std::vector<std::string> names;
    for (const CollectiveEntry& entry : collectives()) {
      if (entry.name == "hierarchical") continue;
      if (entry.name == name) return entry.make(*between_, compressor, layout_, params);
      names.emplace_back(entry.name);
    }
    throw ConfigError("hierarchical has no inner=" + name +
                      core::suggestion(name, names) + ".");
  }

  void cut_shards(std::uint64_t n) {
    shards_.clear();
    for (int j = 0; j < channel_.size(); ++j)
      shards_.push_back(equal_region(n, channel_.size(), j));
  }

  Region own() const { return shards_[at(channel_.rank())]; }

  // Member by member, in order, so that the bits are the same on every transport.
  void scatter(std::span<float> residual) {
    channel_.enter("scatter");
    for (auto* by_member : {&sent_, &received_}) by_member->resize(at(channel_.size()));
    for (int distance = 1; distance < channel_.size(); ++distance) {
      const int to = channel_.neighbour(distance);
      const int from = channel_.neighbour(-distance);
      channel_.start_receive(from, received_[at(from)],
                             channel_.limit(own().size(), own().size()));
      channel_.code_dense(part_of(residual, shards_[at(to)]), to, sent_[at(to)],
                          no_error_);
      channel_.start_send(to, sent_[at(to)]);
    }
    shard_.assign(own().size(), 0.0F);
    for (int from = 0; from < channel_.size(); ++from) {
      if (from == channel_.rank()) {
        const std::span<const float> mine = part_of(residual, own());
        for (std::size_t i = 0; i < mine.size(); ++i) shard_[i] += mine[i];
      } else {
        channel_.finish_receive(from);
        channel_.read_dense(received_[at(from)], from, channel_.rank(), shard_,
                            /*add=*/true);
      }
    }
    channel_.flush();
    channel_.report_unless_finite(shard_);
  }

  Reduced reduce_between(std::size_t k) {
    const std::size_t members = at(channel_.size());
    const std::size_t share = k / members + (k % members == 0 ? 0 : 1);
    shard_sum_.assign(shard_.size(), 0.0F);
    std::vector<float> poison;
    if (!channel_.finite()) {
      shard_.assign(shard_.size(), 0.0F);
      poison.assign(shard_.size(), std::numeric_limits<float>::quiet_NaN());
    }
    const Reduced reduced = inner_->reduce(shard_, poison, share, shard_sum_);
    if (!reduced.finite) channel_.report_nonfinite();
    return reduced;
  }

  void gather(const Reduced& reduced) {
    mine_.index.assign(reduced.index.begin(), reduced.index.end());
    if (is_dense(reduced)) {
      mine_.index.resize(own().size());
      std::iota(mine_.index.begin(), mine_.index.end(), 0U);
    }
    std::ranges::sort(mine_.index);
    mine_.value.clear();
    for (std::uint32_t& position : mine_.index) {
      mine_.value.push_back(shard_sum_[position]);
      position += static_cast<std::uint32_t>(own().begin);
    }
    channel_.enter("gather");
    allgather_.run(channel_, mine_, shards_, shards_.front().size(), sums_, no_error_);
  }

  bool is_dense(const Reduced& reduced) const {
    return reduced.index.empty() && reduced.count == own().size();
  }

  void settle_residual(std::span<float> residual) const {
    std::fill(residual.begin(), residual.end(), 0.0F);
    std::ranges::copy(shard_, part_of(residual, own()).begin());
  }

  // Outside its shard a rank's residual is zero now, so what is in the sum counts as settled.
  Reduced write(const Reduced& reduced, std::span<const float> grad,
                std::span<float> sum) {
    clear_sum(grad, sum);
    index_.clear();
    settled_.clear();
    for (const std::uint32_t position : reduced.settled)
      settled_.push_back(static_cast<std::uint32_t>(position + own().begin));
    for (int j = 0; j < channel_.size(); ++j) {
      const Sparse& part = sums_[at(j)];
      for (std::size_t i = 0; i < part.size(); ++i) sum[part.index[i]] = part.value[i];
      index_.insert(index_.end(), part.index.begin(), part.index.end());
      if (j != channel_.rank())
        settled_.insert(settled_.end(), part.index.begin(), part.index.end());
    }
    if (is_dense(reduced) && index_.size() == sum.size())
      return {.count = sum.size(), .index = {}, .settled = {}};
    return {.count = index_.size(), .index = index_, .settled = settled_};
  }

  const Grid grid_;
  const std::unique_ptr<Transport> inside_;
  const std::unique_ptr<Transport> between_;
  Params fixed_;            // inside a node messages are coded by default
  MessageChannel channel_;  // inside the node
  StepGuard guard_{channel_};
  const Layout layout_;  // of the own shard
  const std::unique_ptr<Collective> inner_;

  Allgather allgather_;
  std::vector<Region> shards_;     // by member
  std::vector<Message> sent_;      // by member
  std::vector<Message> received_;  // by member
  std::vector<float> no_error_;    // f32 is not rounded
  std::vector<float> shard_;       // the node's residual in its own shard
  std::vector<float> shard_sum_;
  Sparse mine_;                       // the sum of the own shard
  std::vector<Sparse> sums_;          // by member
  std::vector<std::uint32_t> index_;  // of the sum
  std::vector<std::uint32_t> settled_;
};

}  // namespace

std::unique_ptr<Collective> hierarchical(Transport& link, Compressor& compressor,
                                         const Layout& layout, Params& params) {
  return std::make_unique<Hierarchical>(link, compressor, layout, params);
}

}  // namespace topknot::collective
