// SPDX-License-Identifier: Apache-2.0
//
// engine_means SCHEME RANKS STEPS FILE: writes the means that an engine gives for gradients
// which python/tests/engine_cases.py makes too, step by step and parameter by parameter, as
// plain floats. The PyTorch package must give the same bits.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "engine/drawn_values.h"
#include "engine/small_model.h"
#include "ranks.h"

namespace {

using namespace topknot;

void write_means(Transport& link, const std::string& scheme, std::uint64_t steps,
                 const std::string& file) {
  Engine engine(link, testing::model(), testing::options(scheme));
  std::ofstream out;
  if (link.rank() == 0) out.open(file, std::ios::binary);
  const std::size_t parameters = testing::model().tensors.size();
  for (std::uint64_t step = 0; step < steps; ++step) {
    engine.begin(0.1);
    for (std::size_t p = parameters; p-- > 0;) {
      testing::draw_values(engine.gradient(p), static_cast<std::uint64_t>(link.rank()),
                           step, p);
      engine.ready(p);
    }
    engine.finish();
    const std::vector<float> means = testing::means(engine);
    out.write(reinterpret_cast<const char*>(means.data()),
              static_cast<std::streamsize>(means.size() * sizeof(float)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: engine_means SCHEME RANKS STEPS FILE\n";
    return 64;
  }
  const std::uint64_t steps = std::strtoull(argv[3], nullptr, 10);
  testing::run(std::atoi(argv[2]),
               [&](Transport& link) { write_means(link, argv[1], steps, argv[4]); });
}
