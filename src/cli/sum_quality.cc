// SPDX-License-Identifier: Apache-2.0
#include "cli/sum_quality.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace topknot::cli {
namespace {

double square(double x) { return x * x; }

/// The magnitude of the k-th largest; k is from 1 to the length.
float kth_magnitude(std::span<const float> x, std::size_t k) {
  std::vector<float> magnitudes;
  for (const float value : x) magnitudes.push_back(std::abs(value));
  const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
  return *kth;
}

}  // namespace

double distance_from_topk(std::span<const float> agreed, std::span<const float> all) {
  const auto zeros = std::ranges::count(agreed, 0.0F);
  const std::size_t k = agreed.size() - static_cast<std::size_t>(zeros);
  if (k == 0) return 0;
  const float threshold = kth_magnitude(all, k);
  std::size_t ties = k;  // at the threshold the lower index comes first
  for (const float value : all) ties -= std::abs(value) > threshold ? 1 : 0;
  double distance = 0;
  double length = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float magnitude = std::abs(all[i]);
    bool kept = magnitude > threshold;
    if (magnitude == threshold && ties > 0) {
      kept = true;
      --ties;
    }
    const double truth = kept ? all[i] : 0.0;
    distance += square(static_cast<double>(agreed[i]) - truth);
    length += square(truth);
  }
  return length > 0 ? std::sqrt(distance / length) : 0;
}

TouchedRows::TouchedRows(const Layout& layout) {
  for (const TensorSlot& slot : layout.tensors)
    if (slot.shape.size() > 1 && slot.size() > 0)
      tensors_.push_back({slot, std::vector<bool>(slot.shape[0])});
}

void TouchedRows::add(std::span<const float> agreed) {
  for (Tensor& tensor : tensors_) {
    const std::uint64_t length = tensor.slot.size() / tensor.slot.shape[0];
    for (std::size_t row = 0; row < tensor.touched.size(); ++row) {
      if (tensor.touched[row]) continue;
      const auto values = agreed.subspan(tensor.slot.offset + row * length, length);
      tensor.touched[row] = std::ranges::any_of(values, [](float x) { return x != 0; });
    }
  }
}

void TouchedRows::end_window() {
  ++windows_;
  for (Tensor& tensor : tensors_) {
    const auto left = std::ranges::count(tensor.touched, false);
    tensor.untouched +=
        static_cast<double>(left) / static_cast<double>(tensor.touched.size());
    std::fill(tensor.touched.begin(), tensor.touched.end(), false);
  }
}

std::vector<TouchedRows::Share> TouchedRows::untouched() const {
  std::vector<Share> all;
  for (const Tensor& tensor : tensors_)
    all.push_back(
        {tensor.slot.name, tensor.slot.shape[0],
         tensor.untouched / static_cast<double>(std::max<std::uint64_t>(windows_, 1))});
  return all;
}

}  // namespace topknot::cli
