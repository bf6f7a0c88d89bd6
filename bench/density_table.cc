// SPDX-License-Identifier: Apache-2.0
//
// How near does each compressor come to the density it was asked for? Prints the table of
// docs/compressors.md: every compressor of the catalog on gradients of three kinds, with
// error feedback.
//
//   density_table [n] [steps]

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/merge.h"
#include "core/random.h"
#include "topknot/catalog.h"
#include "topknot/schedule.h"

namespace topknot {
namespace {

constexpr double kDensities[] = {0.1, 0.01, 0.001};
constexpr std::uint64_t kRows = 4096;

float gaussian(core::Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return static_cast<float>(radius * std::cos(6.283185307179586 * random.uniform()));
}

// Shape 2.5: finite variance, infinite third moment.
float pareto(core::Random& random) {
  const double magnitude = std::pow(1 - random.uniform(), -1 / 2.5) - 1;
  return static_cast<float>((random.bits() & 1) != 0 ? magnitude : -magnitude);
}

float laplace(core::Random& random) { return random.laplace(); }

struct Kind {
  const char* name;
  float (*draw)(core::Random&);
};
constexpr Kind kKinds[] = {
    {"Gaussian", gaussian}, {"Laplace", laplace}, {"Pareto", pareto}};

struct Achieved {
  double mean = 0;
  double least = 1;
  double most = 0;
};

Layout layout_of(std::uint64_t n) {
  const std::uint64_t columns = n / kRows;
  if (columns == 0) return Layout::flat(n);
  Layout layout{{{"matrix", 0, {kRows, columns}}}};
  if (n % kRows != 0) layout.tensors.push_back({"rest", kRows * columns, {n % kRows}});
  return layout;
}

Achieved run(const std::string& compressor, const Kind& kind, std::size_t n, int steps,
             double density) {
  const auto selector = make_compressor(Spec::parse(compressor), layout_of(n));
  const std::size_t k = coordinates_for(n, density);
  std::vector<float> residual(n);
  std::vector<float> gradient(n);
  Sparse sent;
  Achieved achieved;
  for (int step = 0; step < steps; ++step) {
    core::Random random(static_cast<std::uint64_t>(step) + 1);
    for (float& g : gradient) g = kind.draw(random);
    selector->expect(k, density);
    if (!selector->select(residual, gradient, k, sent)) std::abort();
    core::erase(sent.index, residual);
    const double got = static_cast<double>(sent.size()) / static_cast<double>(n);
    achieved.mean += got / steps;
    achieved.least = std::min(achieved.least, got);
    achieved.most = std::max(achieved.most, got);
  }
  return achieved;
}

// "1.02 (0.98-1.10)": what was achieved over what was asked for; where all steps are within a
// hundredth of it "=", and where they are alike one number.
std::string cell(const Achieved& achieved, double density) {
  const double least = achieved.least / density;
  const double most = achieved.most / density;
  char text[64];
  if (least > 0.99 && most < 1.01) return "=";
  if (most - least < 0.01) {
    std::snprintf(text, sizeof text, "%.2f", achieved.mean / density);
  } else {
    std::snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", achieved.mean / density, least,
                  most);
  }
  return text;
}

void print_table(std::size_t n, int steps) {
  std::printf(
      "Achieved over requested density, mean (least-most) of %d steps with residual, "
      "n = %zu; = where all are within a hundredth.\n\n| compressor |",
      steps, n);
  for (const Kind& kind : kKinds)
    for (const double density : kDensities) std::printf(" %s %g |", kind.name, density);
  std::printf("\n|---|");
  for (std::size_t i = 0; i < std::size(kKinds) * std::size(kDensities); ++i)
    std::printf("---|");
  std::printf("\n");
  for (const CompressorEntry& entry : compressors()) {
    std::printf("| `%s` |", std::string(entry.name).c_str());
    for (const Kind& kind : kKinds)
      for (const double density : kDensities) {
        const std::string name(entry.name);
        std::printf(" %s |", cell(run(name, kind, n, steps, density), density).c_str());
        std::fflush(stdout);
      }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace topknot

int main(int argc, char** argv) {
  const long n = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1L << 20;
  const long steps = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 50;
  if (n < 1 || n > 1L << 31 || steps < 1 || steps > 1'000'000) {
    std::fprintf(stderr, "usage: density_table [n] [steps]\n");
    return 2;
  }
  topknot::print_table(static_cast<std::size_t>(n), static_cast<int>(steps));
  return 0;
}
