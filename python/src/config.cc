// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include "topknot/schedule.h"
#include "topknot/transports.h"

namespace topknot::python {
namespace {

// Makes one of each, so that what is wrong is said now and not in the first backward.
void try_out(const Config& config) {
  const Layout layout = Layout::flat(1);
  static_cast<void>(make_memory(config.recipe.memory, layout));
  const auto pick = make_compressor(config.recipe.compressor, layout);
  const auto alone = make_inproc(1);
  static_cast<void>(make_collective(config.recipe.collective, *alone[0], *pick, layout));
  static_cast<void>(make_schedule(config.schedule, config.density));
}

}  // namespace

Config Config::parse(const std::string& scheme, const std::string& memory,
                     const std::string& compressor, const std::string& collective,
                     double density, const std::string& schedule,
                     const std::vector<std::string>& rules, bool rollback) {
  Config config;
  config.recipe = engine::Recipe::of(scheme);
  if (!memory.empty()) config.recipe.memory = Spec::parse(memory);
  if (!compressor.empty()) config.recipe.compressor = Spec::parse(compressor);
  if (!collective.empty()) config.recipe.collective = Spec::parse(collective);
  config.density = density;
  config.schedule = Spec::parse(schedule);
  for (const std::string& rule : rules) config.rules.push_back(engine::Rule::parse(rule));
  config.rollback = rollback;
  try_out(config);
  return config;
}

}  // namespace topknot::python
