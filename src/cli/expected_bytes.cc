// SPDX-License-Identifier: Apache-2.0
#include "cli/expected_bytes.h"

#include <algorithm>
#include <vector>

#include "cli/launch.h"
#include "engine/bucket.h"
#include "engine/recipe.h"
#include "sim/gradient.h"
#include "topknot/catalog.h"
#include "topknot/schedule.h"

namespace topknot::cli {
namespace {

constexpr std::uint64_t kLongest = 1 << 16;
constexpr int kSteps = 4;  // the last counts: residuals have built up

}  // namespace

double expected_bytes(const train::Job& as_run, std::uint64_t coordinates, int workers) {
  if (workers < 2 || coordinates == 0) return 0;
  engine::Recipe recipe = engine::Recipe::of(as_run);
  recipe.memory = {recipe.collective.name == "dense" ? "none" : "residual", {}};
  recipe.compressor = with_shared(recipe.compressor, recipe.collective);
  const std::uint64_t n = std::min(coordinates, kLongest);
  std::vector<double> sent(static_cast<std::size_t>(workers));
  run_threads(workers, Launch{}, [&](Transport& link) {
    engine::Bucket bucket(Layout::flat(n), recipe, link, 0);
    std::vector<float> gradient(n);
    std::vector<float> sum(n);
    std::uint64_t before = 0;
    for (int step = 0; step < kSteps; ++step) {
      sim::fill_gradient(gradient, link.rank(), step, /*correlation=*/0.5);
      before = bucket.traffic().bytes();
      bucket.step(gradient, coordinates_for(n, as_run.density), sum, 1, as_run.density);
    }
    sent[static_cast<std::size_t>(link.rank())] =
        static_cast<double>(bucket.traffic().bytes() - before);
  });
  return *std::ranges::max_element(sent) * static_cast<double>(coordinates) /
         static_cast<double>(n) /
         static_cast<double>(std::max<std::int64_t>(as_run.local_steps, 1));
}

}  // namespace topknot::cli
