// SPDX-License-Identifier: Apache-2.0
#include "train/task.h"

#include <ATen/CPUGeneratorImpl.h>

#include "core/hash.h"
#include "core/random.h"
#include "job/models.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::train {

std::uint64_t joined(std::uint64_t first, std::uint64_t second) {
  const std::uint64_t both[] = {first, second};
  return core::hash(std::as_bytes(std::span(both)));
}

std::unique_ptr<Task> make_task(const Job& job, const RankInfo& rank_info) {
  const ModelEntry& model = find_model(Spec::parse(job.model).name);
#define TASK(name, summary) \
  if (model.task == #name) return task::name(job, rank_info);
#include "job/models.def"
  throw ContractError("models.def has no task " + std::string(model.task));
}

std::uint64_t stream(const Job& job, Draw purpose, std::uint64_t epoch) {
  const auto seed = static_cast<std::uint64_t>(job.seed);
  return core::random_bits(core::random_bits(seed, static_cast<std::uint64_t>(purpose)),
                           epoch);
}

at::Generator generator(const Job& job, const RankInfo& rank_info, const Position& at) {
  const std::uint64_t pass =
      core::random_bits(stream(job, Draw::dropout, at.epoch), at.sample);
  return at::make_generator<at::CPUGeneratorImpl>(
      core::random_bits(pass, static_cast<std::uint64_t>(rank_info.rank)));
}

torch::Tensor dropout(const torch::Tensor& x, double share, at::Generator& draws) {
  if (share == 0) return x;
  const torch::Tensor kept = torch::empty_like(x).bernoulli_(1 - share, draws);
  return x * kept / (1 - share);
}

}  // namespace topknot::train
