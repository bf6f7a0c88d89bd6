// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/rank_order_sum.h"

#include <algorithm>

#include "core/plant.h"

namespace topknot::collective {

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
  const auto keep = [&](int part) {
    std::copy(part_error_.begin(), part_error_.end(),
              error.begin() + static_cast<std::ptrdiff_t>(regions_[at(part)].begin));
  };

  const std::span<float> own = part_of(x, regions_[at(me)]);
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = channel.neighbour(distance);
    const int from = channel.neighbour(-distance);
    channel.start_receive(from, received_[at(from)],
                          channel.limit(own.size(), own.size()));
    channel.code_dense(part_of(x, regions_[at(to)]), to, sent_[at(to)], part_error_);
    keep(to);
    channel.start_send(to, sent_[at(to)]);
  }
  part_.assign(own.size(), 0.0F);
  for (int distance = 1; distance < ranks; ++distance)
    channel.finish_receive(channel.neighbour(-distance));
  for (int next = 0; next < ranks; ++next) {
    const int from =
        TOPKNOT_PLANT(sum_in_order_of_arrival) ? channel.neighbour(-next) : next;
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

}  // namespace topknot::collective
