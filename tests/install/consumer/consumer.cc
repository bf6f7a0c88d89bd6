// SPDX-License-Identifier: Apache-2.0
//
// A user's first program: two ranks, as threads, agree on a sparse sum; nothing is lost.
#include <topknot/topknot.h>

#include <cstddef>
#include <iostream>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSize = 1000;
constexpr std::size_t kKeep = 10;

struct Rank {
  std::vector<float> residual = std::vector<float>(kSize);
  std::vector<float> grad = std::vector<float>(kSize);
  std::vector<float> sum = std::vector<float>(kSize);
};

void reduce(topknot::Transport& link, Rank& rank) {
  const topknot::Layout layout = topknot::Layout::flat(kSize);
  const auto compressor = topknot::make_compressor(topknot::Spec::parse("topk"), layout);
  const auto collective =
      topknot::make_collective(topknot::Spec::parse("topka"), link, *compressor, layout);
  std::vector<float> used_up = rank.grad;
  collective->reduce(rank.residual, used_up, kKeep, rank.sum);
}

bool nothing_is_lost(const Rank& a, const Rank& b) {
  for (std::size_t i = 0; i < kSize; ++i) {
    if (a.grad[i] + b.grad[i] != a.sum[i] + a.residual[i] + b.residual[i]) return false;
  }
  return a.sum == b.sum && a.sum != std::vector<float>(kSize);
}

bool refuses_unknown_names() {
  try {
    topknot::make_compressor(topknot::Spec::parse("topq"), topknot::Layout::flat(kSize));
  } catch (const topknot::ConfigError& error) {
    std::cout << error.what() << '\n';
    return true;
  }
  return false;
}

}  // namespace

int main() {
  Rank a;
  Rank b;
  for (std::size_t i = 0; i < kSize; ++i) {
    a.grad[i] = static_cast<float>(i * 37 % 101);
    b.grad[i] = -static_cast<float>(i * 53 % 103);
  }
  const auto links = topknot::make_inproc(2);
  std::thread other([&] { reduce(*links[1], b); });
  reduce(*links[0], a);
  other.join();
  return nothing_is_lost(a, b) && refuses_unknown_names() ? 0 : 1;
}
