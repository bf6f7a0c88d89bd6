// SPDX-License-Identifier: Apache-2.0
#include "job/conference.h"

#include <bit>
#include <cstdint>

namespace topknot::train {

Conference::Conference(Transport& link, int channel)
    : channel_(link.channel(channel)), messages_(*channel_, "train", params_) {}

std::vector<std::vector<double>> Conference::gather(const std::vector<double>& mine) {
  std::vector<std::uint32_t> words;
  for (const double value : mine) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    words.push_back(static_cast<std::uint32_t>(bits));
    words.push_back(static_cast<std::uint32_t>(bits >> 32));
  }
  messages_.begin(words.size(), 0);
  messages_.enter("confer");
  const std::vector<std::uint32_t> all = collective::gather_words(messages_, words);
  std::vector<std::vector<double>> heard;
  for (std::size_t at = 0; at < all.size(); at += 2) {
    if (at % words.size() == 0) heard.emplace_back();
    heard.back().push_back(
        std::bit_cast<double>(all[at] | std::uint64_t{all[at + 1]} << 32));
  }
  return heard;
}

std::vector<double> Conference::sum(const std::vector<double>& mine) {
  std::vector<double> total(mine.size());
  for (const std::vector<double>& one : gather(mine))
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += one[i];
  return total;
}

void Conference::average(std::span<float> x) {
  messages_.begin(x.size(), 0);
  std::vector<float> error;
  sum_.run(messages_, x, error);
  for (float& value : x) value /= static_cast<float>(messages_.size());
}

}  // namespace topknot::train
