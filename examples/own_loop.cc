// SPDX-License-Identifier: Apache-2.0
//
// Topknot in a training loop of one's own, without any framework: four ranks, threads here,
// fit y = W x + b by least squares, each on points of its own, and send 5 % of W's gradient.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "topknot/engine.h"
#include "topknot/transports.h"

constexpr std::size_t kIn = 32, kOut = 16;

double train(topknot::Transport& link) {
  const topknot::Layout model = {{{"weight", 0, {kOut, kIn}}, {"bias", 0, {kOut}}}};
  topknot::Engine engine(link, model, {.scheme = "knot", .density = 0.05});
  std::vector<float> weight(kOut * kIn), bias(kOut), x(kIn);
  std::mt19937 random(
      static_cast<unsigned>(link.rank()));  // every rank draws other points
  std::normal_distribution<float> normal;
  const float rate = 0.005F;
  double loss = 0;  // of the last step
  for (int step = 0; step < 1000; ++step) {
    loss = 0;
    engine.begin(rate);
    for (int point = 0; point < 8; ++point) {
      for (float& value : x) value = normal(random);
      for (std::size_t o = 0; o < kOut; ++o) {
        float error = bias[o] - 1;  // what is to be found: b = 1, W[o][i] = sin(o + i)
        for (std::size_t i = 0; i < kIn; ++i)
          error += (weight[o * kIn + i] - std::sin(static_cast<float>(o + i))) * x[i];
        loss += error * error / (8 * kOut);
        engine.gradient(1)[o] += error / 8;
        for (std::size_t i = 0; i < kIn; ++i)
          engine.gradient(0)[o * kIn + i] += error * x[i] / 8;
      }
    }
    for (const std::size_t p : {1, 0}) engine.ready(p);
    if (!engine.finish().finite) continue;
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] -= rate * engine.gradient(0)[i];
    for (std::size_t o = 0; o < kOut; ++o) bias[o] -= rate * engine.gradient(1)[o];
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
  return *std::max_element(loss.begin(), loss.end()) < 1e-3 ? 0 : 1;  // from 17
}
