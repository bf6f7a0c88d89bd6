// SPDX-License-Identifier: Apache-2.0
//
// deft: layers get their share by norm, and are dealt out to the ranks by what it costs
// to select from them.
//
//   fold      the gradient into the residual
//   plan      the leader, rank t mod P on step t, weighs the layers: how many coordinates
//             each is to give, and which bin it lies in; all ranks get the plan
//   select    exactly as many in each layer of bin (t + rank) mod P
//   share     the positions, round a ring
//   sum       everyone's values there, in rank order
//   settle    clear the residual there, on every rank, and write the sum
//
// A layer is a tensor, or one of P pieces of a tensor that is longer than n/P. Visited by
// decreasing norm, each is given its share of what is left of k: at least one, at most
// all it has; what remains then goes to whoever has room, in the same order. Packing is
// greedy: the costliest layer first, into the lightest bin, at a cost of size * log2 of
// what it gives.
//
// Cost    (ceil(log2 P) + 3(P-1)) alpha + 3k(P-1)/P beta on average, beta per 32-bit
//         word, before coding, and two words a layer for the plan. The leader reads the
//         residual once more, for the norms; everyone selects from about n/P coordinates.
// Bound   with k' = k rounded up to a multiple of P the busiest rank sends at most
//         k' + 2k'(P-1)/P words, on any input and every step, plan and headers apart: the
//         layers' shares add up to no more than k, and every layer lies in one bin (see
//         exdyna). The plan is the cap; what it leaves out stays in the residual.
// Keeps   in the residual what was not selected, and what rounding took off.
// Paper   Yoon and Oh, "DEFT: Exploiting Gradient Norm Difference between Model Layers
//         for Scalable Gradient Sparsification", ICPP 2023.
// Departs - Everyone's shares are the leader's. In the published code each rank computes
//           its own, while the bins are the leader's, so the total is only near k; and
//           more layers than k send it over.
//         - Layers that give everything are dealt like the others: published, all ranks
//           send them.
//         - No padding, empty bins are legal, and zeros are not sent. P = 1 works.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/primitives/broadcast.h"
#include "collectives/primitives/cost.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/shared_index_sum.h"
#include "collectives/primitives/step_guard.h"
#include "core/select.h"
#include "core/stats.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::collective {
namespace {

std::vector<Region> layers_of(const Layout& layout, int ranks) {
  const std::uint64_t longest = layout.size() / static_cast<std::uint64_t>(ranks);
  std::vector<Region> layers;
  for (const TensorSlot& tensor : layout.tensors) {
    const int pieces = tensor.size() > longest ? ranks : 1;
    for (int i = 0; i < pieces; ++i) {
      const Region piece = equal_region(tensor.size(), pieces, i);
      if (piece.size() > 0)
        layers.push_back({tensor.offset + piece.begin, tensor.offset + piece.end});
    }
  }
  return layers;
}

/// The places of `weight` in decreasing order, equal ones as they are.
std::vector<std::size_t> decreasing(std::span<const double> weight) {
  std::vector<std::size_t> order(weight.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weight[a] > weight[b]; });
  return order;
}

/// How many coordinates each layer gives: adding up to `k`, or to all that the layers
/// with a norm have.
std::vector<std::uint32_t> quotas(std::span<const Region> layers,
                                  std::span<const double> norm, std::uint64_t k) {
  std::vector<std::uint32_t> quota(layers.size());
  const auto give = [&](std::size_t layer, std::uint64_t wanted) {
    const std::uint64_t given =
        std::min({wanted, layers[layer].size() - quota[layer], k});
    quota[layer] += static_cast<std::uint32_t>(given);
    k -= given;
  };
  double norm_left = std::accumulate(norm.begin(), norm.end(), 0.0);
  const std::vector<std::size_t> order = decreasing(norm);
  for (const std::size_t layer : order) {
    if (norm[layer] == 0) break;
    // Rounding may leave less than the last norm; then the rest is all its.
    const double share = norm_left > norm[layer] ? norm[layer] / norm_left : 1;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(k) * share);
    give(layer, std::max<std::uint64_t>(1, wanted));
    norm_left -= norm[layer];
  }
  for (const std::size_t layer : order)
    if (norm[layer] > 0) give(layer, k);
  return quota;
}

/// Which bin each layer lies in.
std::vector<std::uint32_t> pack_bins(std::span<const Region> layers,
                                     std::span<const std::uint32_t> quota, int bins) {
  std::vector<double> cost;
  for (std::size_t i = 0; i < layers.size(); ++i)
    cost.push_back(static_cast<double>(layers[i].size()) *
                   std::max(1.0, std::log2(std::max(quota[i], 1U))));
  std::vector<double> load(at(bins));
  std::vector<std::uint32_t> bin(layers.size());
  for (const std::size_t layer : decreasing(cost)) {
    const auto lightest = std::min_element(load.begin(), load.end());
    *lightest += cost[layer];
    bin[layer] = static_cast<std::uint32_t>(lightest - load.begin());
  }
  return bin;
}

class Deft final : public Collective {
 public:
  Deft(Transport& link, const Layout& layout, Params& params)
      : channel_(link, "deft", params),
        n_(layout.size()),
        layers_(layers_of(layout, link.size())),
        exact_(layers_.size()) {}

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    if (residual.size() != n_)
      throw ContractError("deft was made for " + std::to_string(n_) +
                          " coordinates and got " + std::to_string(residual.size()) +
                          ".");
    channel_.begin(n_, k);
    guard_.fold(residual, grad);
    plan(residual.host(), k);
    select(residual.host(), k);
    share(k);
    ++step_;
    return agreed_.settle(guard_, residual, grad, sum);
  }

  void visit_state(StateVisitor& visitor) override { visitor.field("step", step_); }

  bool needs_host() const noexcept override { return true; }

  std::vector<CostPhase> cost(double n, double k) const override {
    const Cost cost(channel_);
    std::vector<CostPhase> phases = cost.rank_order_sum(k);
    phases.push_back(cost.allgather(cost.positions(k / channel_.size(), n)));
    phases.push_back(cost.rounds(Cost::words(2 * channel_.size())));
    return phases;
  }

 private:
  // The leader is turn(0), and turn(r) is the bin of rank r.
  int turn(int rank) const {
    const auto ranks = static_cast<std::uint64_t>(channel_.size());
    return static_cast<int>((step_ + static_cast<std::uint64_t>(rank)) % ranks);
  }

  void plan(std::span<float> residual, std::size_t k) {
    plan_.resize(2 * layers_.size());
    if (channel_.rank() == turn(0)) {
      const std::vector<std::uint32_t> quota = k < n_ ? weigh(residual, k) : everything();
      const std::vector<std::uint32_t> bin = pack_bins(layers_, quota, channel_.size());
      std::copy(quota.begin(), quota.end(), plan_.begin());
      std::copy(bin.begin(), bin.end(),
                plan_.begin() + static_cast<std::ptrdiff_t>(bin.size()));
    }
    channel_.enter("plan");
    broadcast_.run_words(channel_, turn(0), plan_);
  }

  std::vector<std::uint32_t> weigh(std::span<float> residual, std::size_t k) const {
    std::vector<double> norm;
    for (const Region& layer : layers_)
      norm.push_back(std::sqrt(core::moments(part_of(residual, layer)).sum_square));
    return quotas(layers_, norm, k);
  }

  std::vector<std::uint32_t> everything() const {
    std::vector<std::uint32_t> quota;
    for (const Region& layer : layers_)
      quota.push_back(static_cast<std::uint32_t>(layer.size()));
    return quota;
  }

  // Layers are in order, so the positions are. Zeros are left out, but not when
  // everything is wanted: a coordinate that is zero on one rank may not be on another.
  void select(std::span<float> residual, std::size_t k) {
    const auto my_bin = static_cast<std::uint32_t>(turn(channel_.rank()));
    mine_.clear();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::uint32_t quota = plan_[i];
      if (plan_[layers_.size() + i] != my_bin || quota == 0) continue;
      if (!exact_[i].select(part_of(residual, layers_[i]), {}, quota, found_))
        channel_.report_nonfinite();
      for (std::size_t j = 0; j < found_.size(); ++j)
        if (found_.value[j] != 0 || k >= n_)
          mine_.push_back(static_cast<std::uint32_t>(layers_[i].begin) + found_.index[j]);
    }
  }

  void share(std::size_t k) {
    anywhere_.assign(at(channel_.size()), Region{0, n_});
    agreed_.gather(channel_, mine_, anywhere_, std::min<std::uint64_t>(k, n_));
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  const std::uint64_t n_;
  const std::vector<Region> layers_;  // in order, without gaps
  std::uint64_t step_ = 0;

  std::vector<core::ExactTopK> exact_;  // by layer
  std::vector<std::uint32_t> plan_;     // every layer's quota, then every layer's bin
  Broadcast broadcast_;
  Sparse found_;
  std::vector<std::uint32_t> mine_;
  std::vector<Region> anywhere_;
  SharedIndexSum agreed_;
};

}  // namespace

std::unique_ptr<Collective> deft(Transport& link, Compressor&, const Layout& layout,
                                 Params& params) {
  return std::make_unique<Deft>(link, layout, params);
}

}  // namespace topknot::collective
