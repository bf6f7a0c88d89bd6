// SPDX-License-Identifier: Apache-2.0
#include "cli/run_warnings.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/numbers.h"
#include "core/names.h"
#include "engine/recipe.h"
#include "engine/rules.h"

namespace topknot::cli {
namespace {

std::vector<std::string> parameters_of(const train::Start& start) {
  std::vector<std::string> names;
  for (const Layout& bucket : start.buckets)
    for (const TensorSlot& tensor : bucket.tensors) names.push_back(tensor.name);
  return names;
}

}  // namespace

std::vector<std::string> warnings_about(const train::Start& start) {
  std::vector<std::string> warnings;
  const std::vector<std::string> names = parameters_of(start);
  for (const std::string& text : start.job.rules) {
    const engine::Rule rule = engine::Rule::parse(text);
    if (std::ranges::any_of(names, [&](const std::string& name) {
          return engine::matches(rule.glob, name);
        }))
      continue;
    std::vector<std::string> some(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(
                                           std::min<std::size_t>(names.size(), 6)));
    if (names.size() > some.size()) some.emplace_back("...");
    warnings.push_back(fmt::format("The rule {} matches no parameter; there are {}.",
                                   text, core::listed(some, ", ")));
  }
  std::uint64_t longest = 0;
  for (const Layout& bucket : start.buckets) longest = std::max(longest, bucket.size());
  const bool sparse = engine::Recipe::of(start.job).collective.name != "dense";
  if (sparse && longest > 0 && start.job.density * static_cast<double>(longest) < 1)
    warnings.push_back(
        fmt::format("A density of {} is less than one of the {} coordinates of the "
                    "longest bucket; one is "
                    "sent.",
                    start.job.density, with_commas(longest)));
  return warnings;
}

}  // namespace topknot::cli
