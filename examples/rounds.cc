// SPDX-License-Identifier: Apache-2.0
//
// A budget of bytes in a training loop of one's own: four ranks, threads here, fit W to points
// of their own by SGD with momentum. Each takes a few steps alone, and then the ranks exchange
// how far they have come: a quarter of the coordinates in 2 bits each.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "topknot/budget.h"
#include "topknot/engine.h"
#include "topknot/transports.h"

constexpr std::size_t kIn = 32, kOut = 16;

/// One step of SGD with momentum on eight new points. Returns their loss.
double step_alone(std::mt19937& random, std::vector<float>& weight,
                  std::vector<float>& velocity) {
  std::normal_distribution<float> normal;
  std::vector<float> gradient(weight.size()), x(kIn);
  double loss = 0;
  for (int point = 0; point < 8; ++point) {
    for (float& value : x) value = normal(random);
    for (std::size_t o = 0; o < kOut; ++o) {
      float error = 0;  // what is to be found: W[o][i] = sin(o + i)
      for (std::size_t i = 0; i < kIn; ++i)
        error += (weight[o * kIn + i] - std::sin(static_cast<float>(o + i))) * x[i];
      loss += error * error / (8 * kOut);
      for (std::size_t i = 0; i < kIn; ++i) gradient[o * kIn + i] += error * x[i] / 8;
    }
  }
  for (std::size_t i = 0; i < weight.size(); ++i) {
    velocity[i] = 0.5F * velocity[i] + gradient[i];
    weight[i] -= 0.005F * velocity[i];
  }
  return loss;
}

double train(topknot::Transport& link) {
  const topknot::Split split = topknot::split({.budget = 1.0 / 64});
  topknot::Engine engine(link, {{{"weight", 0, {kOut, kIn}}}},
                         {.memory = "residual",
                          .collective = "knot:values=" + std::string(split.values),
                          .density = split.density});
  std::vector<float> weight(kOut * kIn), velocity(weight.size());
  std::mt19937 random(static_cast<unsigned>(link.rank()));
  double loss = 0;  // of the last step
  for (int round = 0; round < 500; ++round) {
    const std::vector<float> start = weight;  // the same on all ranks
    for (std::uint64_t i = 0; i < split.local_steps; ++i)
      loss = step_alone(random, weight, velocity);
    engine.begin();
    for (std::size_t i = 0; i < weight.size(); ++i)
      engine.gradient(0)[i] = start[i] - weight[i];
    weight = start;
    if (!engine.finish().finite) continue;
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= engine.gradient(0)[i];
  }
  return loss;
}

int main() {
  auto links = topknot::make_inproc(4);
  std::vector<double> loss(links.size());
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < links.size(); ++r)
    ranks.emplace_back([&, r] { loss[r] = train(*links[r]); });
  for (std::thread& rank : ranks) rank.join();
  for (const double last : loss) std::printf("loss %.2g\n", last);
  return *std::max_element(loss.begin(), loss.end()) < 1e-3 ? 0 : 1;  // from 16
}
