// SPDX-License-Identifier: Apache-2.0
#include "train/second_moments.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

float mean_of(std::span<const float> row) {
  return static_cast<float>(std::accumulate(row.begin(), row.end(), 0.0) /
                            static_cast<double>(row.size()));
}

/// Scales `row`, whose mean is `own`, to the mean of all ranks. Rounding cannot take the mean
/// below this rank's share of it: squares that became zero would make the next step boundless.
void scale_row(std::span<float> row, float own, float mean, int ranks) {
  const float ratio = std::max(mean / own, 1 / static_cast<float>(ranks));
  if (!std::isfinite(ratio)) {  // this rank has seen nothing of the row
    std::ranges::fill(row, mean);
    return;
  }
  for (float& square : row) square *= ratio;
}

}  // namespace

SecondMoments::SecondMoments(Optimizer& optimizer, Replica& replica, Transport& link,
                             int local_steps)
    : optimizer_(optimizer), replica_(replica), traffic_(std::make_shared<Traffic>()) {
  if (link.size() == 1 || optimizer.second_moment(0) == nullptr) return;
  channel_ = make_metered(link.channel(kMomentsChannel), traffic_);
  std::uint64_t weights = 0;
  for (const std::size_t size : replica.sizes()) weights += size;
  // A mean takes 2 bytes, a weight of a dense step 4.
  const std::uint64_t dense = 2 * weights * static_cast<std::uint64_t>(local_steps);
  rows_every_ = (kRowShare * rows().size() + dense - 1) / dense;
}

std::uint64_t SecondMoments::after_round(std::uint64_t rounds) {
  if (!channel_) return 0;
  const std::uint64_t before = traffic_->bytes();
  if (rounds % kEvery == 0)
    average_all();
  else if (rounds % rows_every_ == 0)
    average_rows();
  return traffic_->bytes() - before;
}

std::size_t SecondMoments::row_length(std::size_t parameter) const {
  const auto& shape = replica_.tensor(parameter).shape;
  const std::size_t size = replica_.sizes()[parameter];
  return shape.size() > 1 && size > 0 ? size / shape[0] : size;
}

std::vector<std::span<float>> SecondMoments::rows() {
  std::vector<std::span<float>> found;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    const std::span<float> squares = *optimizer_.second_moment(i);
    const std::size_t length = row_length(i);
    for (std::size_t at = 0; at < squares.size(); at += length)
      found.push_back(squares.subspan(at, length));
  }
  return found;
}

void SecondMoments::average_rows() {
  const std::vector<std::span<float>> all = rows();
  std::vector<float> own;
  own.reserve(all.size());
  for (const std::span<float> row : all) own.push_back(mean_of(row));
  std::vector<float> means = own;
  if (!average(means, *channel_)) return;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (means[r] > 0) scale_row(all[r], own[r], means[r], channel_->size());
}

void SecondMoments::average_all() {
  std::vector<float> squares;
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    const std::vector<float>& one = *optimizer_.second_moment(i);
    squares.insert(squares.end(), one.begin(), one.end());
  }
  if (!average(squares, *channel_)) return;
  auto from = squares.cbegin();
  for (std::size_t i = 0; i < replica_.size(); ++i) {
    std::vector<float>& one = *optimizer_.second_moment(i);
    std::copy_n(from, one.size(), one.begin());
    from += static_cast<std::ptrdiff_t>(one.size());
  }
}

}  // namespace topknot::train
