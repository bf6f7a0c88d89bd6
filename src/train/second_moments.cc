// SPDX-License-Identifier: Apache-2.0
#include "train/second_moments.h"

#include <algorithm>
#include <vector>

#include "topknot/catalog.h"
#include "train/channels.h"

namespace topknot::train {
namespace {

/// Replaces `x` with its mean over all ranks. False, and `x` is of no use, where the sum is not
/// finite. The rounding errors of bf16 are dropped: the next mean is one of other squares.
bool average(std::vector<float>& x, Transport& channel) {
  const Layout layout = Layout::flat(x.size());
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  const auto dense =
      make_collective(Spec::parse("dense:values=bf16"), channel, *compressor, layout);
  std::vector<float> errors(x.size());
  if (!dense->reduce(errors, x, x.size(), x).finite) return false;
  for (float& value : x) value /= static_cast<float>(channel.size());
  return true;
}

}  // namespace

SecondMoments::SecondMoments(Optimizer& optimizer, Replica& replica, Transport& link)
    : optimizer_(optimizer), replica_(replica), traffic_(std::make_shared<Traffic>()) {
  if (link.size() > 1 && optimizer.second_moment(0) != nullptr)
    channel_ = make_metered(link.channel(kMomentsChannel), traffic_);
}

std::uint64_t SecondMoments::after_round(std::uint64_t rounds) {
  if (!channel_ || rounds % kEvery != 0) return 0;
  const std::uint64_t before = traffic_->bytes();
  std::vector<float> squares;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    const std::vector<float>& one = *optimizer_.second_moment(i);
    squares.insert(squares.end(), one.begin(), one.end());
  }
  if (average(squares, *channel_)) {
    auto from = squares.cbegin();
    for (std::size_t i = 0; i < replica_.size(); ++i) {
      std::vector<float>& one = *optimizer_.second_moment(i);
      std::copy_n(from, one.size(), one.begin());
      from += static_cast<std::ptrdiff_t>(one.size());
    }
  }
  return traffic_->bytes() - before;
}

}  // namespace topknot::train
