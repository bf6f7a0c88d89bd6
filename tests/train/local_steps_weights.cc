// SPDX-License-Identifier: Apache-2.0
//
// local_steps_weights KIND RANKS ROUNDS PREFIX: writes the weights after every round of the
// trainer's local steps, as plain floats, to PREFIX.weights, and a line for each parameter's name
// and shape to PREFIX.shapes. Gradients are a formula, as in python/tests/engine_cases.py.
// topknot.LocalSteps must give the same bits.

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/drawn_values.h"
#include "job/engine_options.h"
#include "ranks.h"
#include "train/replica.h"
#include "train/synchronizer.h"
#include "train/task.h"

namespace topknot::train {
namespace {

constexpr double kRate = 0.25;  // times a gradient, it is exact
constexpr std::int64_t kLocalSteps = 3;
constexpr std::uint64_t kStepOfWeights = 99;

Job job_of(std::string_view kind) {
  Job job;
  job.model = "mlp:hidden=32";
  job.data = "generated:classes=4,size=64,seed=3,side=8,noise=0";
  job.optimizer = "sgd";
  job.bucket_mb = 0.01;
  job.local_steps = kLocalSteps;
  if (kind == "diloco") {
    job.scheme = "dense";
  } else if (kind == "sparseloco") {
    job.scheme = "topka";
    job.compressor = "chunked";
    job.collective = "topka:values=i2";
    job.memory = "residual:decay=0.95";
    job.density = 1.0 / 64;
    job.outer = "sgd";
    job.outer_lr = 1;
  } else {  // nesterov
    job.scheme = "topkdsa";
    job.density = 0.1;
  }
  std::vector<std::string> notices;
  return prepared(job, notices);
}

void write_shapes(Replica& replica, const std::string& file) {
  std::ofstream out(file);
  for (std::size_t p = 0; p < replica.size(); ++p) {
    out << replica.tensor(p).name;
    for (const std::uint64_t size : replica.tensor(p).shape) out << ' ' << size;
    out << '\n';
  }
}

void write_weights(Replica& replica, std::ofstream& out) {
  for (std::size_t p = 0; p < replica.size(); ++p) {
    const std::span<const float> weight = replica.weight(p);
    out.write(reinterpret_cast<const char*>(weight.data()),
              static_cast<std::streamsize>(weight.size_bytes()));
  }
}

void train_alone(Transport& link, const Job& job, std::uint64_t rounds,
                 const std::string& prefix) {
  const auto rank = static_cast<std::uint64_t>(link.rank());
  const std::unique_ptr<Task> task = make_task(job, {link.rank(), link.size()});
  Replica replica(task->model(), link, engine_options(job, 0));
  const auto synchronizer = make_synchronizer(job, *task, replica, link);
  for (std::size_t p = 0; p < replica.size(); ++p)
    testing::draw_values(replica.weight(p), 0, kStepOfWeights, p);
  std::ofstream out;
  if (link.rank() == 0) {
    write_shapes(replica, prefix + ".shapes");
    out.open(prefix + ".weights", std::ios::binary);
  }
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<StepRecord> steps;
    for (std::int64_t i = 0; i < kLocalSteps; ++i) {
      synchronizer->begin(kRate, /*opens_round=*/i == 0);
      for (std::size_t p = 0; p < replica.size(); ++p)
        testing::draw_values(replica.gradient(p), rank,
                             round * kLocalSteps + static_cast<std::uint64_t>(i), p);
      synchronizer->prepare_held();
      steps.emplace_back().lr = kRate;
      synchronizer->finish(steps, /*closes_round=*/i + 1 == kLocalSteps);
    }
    write_weights(replica, out);
  }
}

}  // namespace
}  // namespace topknot::train

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: local_steps_weights KIND RANKS ROUNDS PREFIX\n";
    return 64;
  }
  const auto job = topknot::train::job_of(argv[1]);
  const std::uint64_t rounds = std::strtoull(argv[3], nullptr, 10);
  topknot::testing::run(std::atoi(argv[2]), [&](topknot::Transport& link) {
    topknot::train::train_alone(link, job, rounds, argv[4]);
  });
}
