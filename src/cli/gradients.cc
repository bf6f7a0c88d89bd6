// SPDX-License-Identifier: Apache-2.0
#include "cli/gradients.h"

#include <fmt/core.h>

#include <limits>

#include "sim/gradient.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr int kDrawn = 4;  // used in turn, so that none is still in the cache

}  // namespace

void Gradients::add_to(CLI::App& command) {
  command_ = &command;
  command
      .add_option("--gradients", path_,
                  "A file of `train --record-gradients`, instead of drawn ones")
      ->type_name("FILE");
}

void Gradients::open(Problem& problem) {
  if (path_.empty()) return;
  for (const auto& [option, why] :
       {std::pair("--n", "the file has its own length"),
        {"--correlation", "only drawn gradients have one to choose"}}) {
    const CLI::Option* found = command_->get_option_no_throw(option);
    if (found != nullptr && found->count() > 0)
      throw ConfigError(
          fmt::format("{} cannot be given with --gradients: {}.", option, why));
  }
  file_ = std::make_shared<store::RecordedGradients>(store::disk(), path_);
  problem.n = file_->layout().size();
  if (problem.n > std::numeric_limits<std::uint32_t>::max())
    throw DataError(fmt::format(
        "{} has {} coordinates a step, too many for one bucket: at most {} are right.",
        path_, problem.n, std::numeric_limits<std::uint32_t>::max()));
}

Layout Gradients::layout_or(const Layout& drawn) const {
  return file_ ? file_->layout() : drawn;
}

std::vector<std::vector<float>> Gradients::of_rank(int rank, std::uint64_t n,
                                                   double correlation) const {
  std::vector<std::vector<float>> all;
  if (file_) {
    const std::size_t which = static_cast<std::size_t>(rank) % file_->ranks().size();
    for (std::size_t step = 0; step < file_->steps().size(); ++step)
      all.push_back(file_->flat(step, which));
    return all;
  }
  for (int which = 0; which < kDrawn; ++which)
    sim::fill_gradient(all.emplace_back(n), rank, which, correlation);
  return all;
}

Json Gradients::about() const {
  if (!file_) return nullptr;
  return {{"file", path_},
          {"model", file_->about("model")},
          {"data", file_->about("data")},
          {"parameters", file_->layout().tensors.size()},
          {"steps", file_->steps()},
          {"ranks", file_->ranks()}};
}

std::string Gradients::summary() const {
  const std::string model = file_->about("model");
  return fmt::format("gradients of {} ({}{} steps, {} ranks)", path_,
                     model.empty() ? "" : model + ", ", file_->steps().size(),
                     file_->ranks().size());
}

}  // namespace topknot::cli
