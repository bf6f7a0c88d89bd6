// SPDX-License-Identifier: Apache-2.0
#include "train/second_moments.h"

#include <algorithm>
#include <vector>

#include "train/channels.h"

namespace topknot::train {

SecondMoments::SecondMoments(Optimizer& optimizer, Replica& replica, Transport& link)
    : optimizer_(optimizer), replica_(replica) {
  if (link.size() == 1 || optimizer.second_moment(0) == nullptr) return;
  std::uint64_t coordinates = 0;
  for (const std::size_t size : replica.sizes()) coordinates += size;
  bucket_ = std::make_unique<engine::Bucket>(
      Layout::flat(coordinates),
      engine::Recipe{.memory = Spec::parse("none"),
                     .compressor = Spec::parse("topk"),
                     .collective = Spec::parse("dense:values=bf16")},
      link, kMomentsChannel);
}

std::uint64_t SecondMoments::after_round(std::uint64_t rounds) {
  if (!bucket_ || rounds % kEvery != 0) return 0;
  std::vector<float> squares;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    const std::vector<float>& one = *optimizer_.second_moment(i);
    squares.insert(squares.end(), one.begin(), one.end());
  }
  const StepTrace trace = bucket_->step(squares, squares.size(), squares);
  if (!trace.finite) return trace.sent_bytes;
  auto from = squares.cbegin();
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    std::vector<float>& one = *optimizer_.second_moment(i);
    const auto end = from + static_cast<std::ptrdiff_t>(one.size());
    std::copy(from, end, one.begin());
    from = end;
  }
  return trace.sent_bytes;
}

}  // namespace topknot::train
