// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/cost.h"

#include <algorithm>
#include <cmath>

#include "collectives/primitives/global_topk.h"
#include "core/random.h"
#include "core/wire/wire.h"

namespace topknot::collective {
namespace {

constexpr double kHeader = static_cast<double>(core::kHeaderBytes);
// Four messages of an exchange are under way each way (exchange.cc).
constexpr double kExchangeInFlight = 4;

}  // namespace

// The length of what the coder makes of a sample: positions at random, and as dense.
double Cost::coded(double count, double region, core::Format format) const {
  constexpr double kSample = 4096;
  count = std::min(count, region);
  if (count < 1) return kHeader;
  const double share = std::min(1.0, kSample / count);
  const auto wanted = static_cast<std::size_t>(std::ceil(count * share));
  const auto size =
      static_cast<std::uint64_t>(std::min(std::ceil(region * share), 0x1p32));
  core::Random random(wanted, size);
  Sparse sample;
  // Of the places that are left, each is as likely to be among those that are wanted.
  for (std::uint64_t i = 0; i < size && sample.size() < wanted;) {
    const double chance =
        static_cast<double>(wanted - sample.size()) / static_cast<double>(size - i);
    // How many are passed over before the next, of a geometric distribution.
    const double u = 1 - static_cast<double>(random.uniform());
    const double gap = chance >= 1 ? 0 : std::floor(std::log(u) / std::log1p(-chance));
    i = std::min(i + static_cast<std::uint64_t>(gap), size - (wanted - sample.size()));
    sample.index.push_back(static_cast<std::uint32_t>(i++));
    sample.value.push_back(random.laplace());
  }
  if (format.values == core::Values::none) sample.value.clear();
  std::vector<std::byte> message;
  core::encode({}, sample, {0, size}, format, /*nonfinite=*/false, message, {});
  return kHeader + (static_cast<double>(message.size()) - kHeader) / share;
}

double Cost::pairs(double count, double region) const {
  return coded(count, region, channel_.format());
}

double Cost::positions(double count, double region) const {
  return coded(count, region, {channel_.format().coding, core::Values::none});
}

double Cost::values(double count) const {
  constexpr std::uint64_t kMany = 1 << 20;
  const double each =
      (static_cast<double>(channel_.dense_length(kMany)) - kHeader) / kMany;
  return kHeader + std::ceil(count) * each;
}

double Cost::words(double count) { return kHeader + 4 * count; }

double Cost::pairs_or_values(double count, double region) const {
  return std::min(pairs(count, region), values(region));
}

CostPhase Cost::allgather(double bytes, Route route) const {
  if (route == Route::ring) return {ranks_ - 1, 1, bytes};
  if (route == Route::direct) return {ranks_ - 1, std::max(ranks_ - 1, 1.0), bytes};
  return {log_ranks(), 1, bytes * (ranks_ - 1) / std::max(log_ranks(), 1.0)};
}

CostPhase Cost::exchange(double bytes, Route route) const {
  if (route == Route::direct) return {ranks_ - 1, kExchangeInFlight, bytes};
  return {log_ranks(), 1, bytes * ranks_ / 2};
}

CostPhase Cost::rounds(double bytes) const { return {log_ranks(), 1, bytes}; }

CostPhase Cost::global_topk(double k) const {
  const int ranks = channel_.size();
  const double round = words(GlobalTopK::bins(static_cast<std::size_t>(k), ranks));
  if (GlobalTopK::at_once(ranks))
    return {2 * (ranks_ - 1), std::max(ranks_ - 1, 1.0), round};
  return {2 * log_ranks(), 1, round};
}

std::vector<CostPhase> Cost::rank_order_sum(double count) const {
  const double part = values(count / ranks_);
  return {{ranks_ - 1, std::max(ranks_ - 1, 1.0), part}, allgather(part)};
}

double Cost::log_ranks() const { return std::ceil(std::log2(ranks_)); }

double Cost::in_union(double n, double k, double selections) {
  return n * -std::expm1(selections * std::log1p(-std::min(k / n, 1.0)));
}

}  // namespace topknot::collective
