// SPDX-License-Identifier: Apache-2.0
#include "train/engine_options.h"

#include "topknot/catalog.h"

namespace topknot::train {

void move_momentum(Job& job, std::vector<std::string>& remarks) {
  const Scheme& scheme = find_scheme(job.scheme);
  const Spec memory =
      Spec::parse(job.memory.empty() ? scheme.memory : std::string_view(job.memory));
  std::string& behind = job.local_steps > 1 ? job.outer : job.optimizer;
  Spec optimizer = Spec::parse(behind);
  if (memory.name != "dgc" || optimizer.name != "sgd") return;
  const double momentum = optimizer.params.number("momentum", 0, 0, 1, "");
  if (momentum == 0) return;
  behind = "sgd";
  if (!memory.params.str().empty()) {
    remarks.push_back("the memory dgc has the momentum, so the optimizer goes without.");
    return;
  }
  job.memory = "dgc:" + optimizer.params.str();  // which has the same parameters
  remarks.push_back(optimizer.params.str() +
                    " is moved from the optimizer to the memory dgc.");
}

EngineOptions engine_options(const Job& job, int channel) {
  EngineOptions options;
  options.scheme = job.scheme;
  options.memory = job.memory;
  options.compressor = job.compressor;
  options.collective = job.collective;
  options.density = job.density;
  options.schedule = job.density_schedule;
  options.rules = job.rules;
  options.bucket_bytes = static_cast<std::uint64_t>(job.bucket_mb * (1 << 20));
  options.dense_vectors = job.dense_vectors;
  options.channel = channel;
  return options;
}

}  // namespace topknot::train
