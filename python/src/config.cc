// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include "topknot/error.h"
#include "topknot/schedule.h"
#include "topknot/transports.h"

namespace topknot::python {
namespace {

// Makes one of each, so that what is wrong is said now and not in the first backward.
void try_out(const Config& config) {
  const Layout layout = Layout::flat(1);
  if (make_memory(config.recipe.memory, layout)->units() == Units::updates)
    throw ConfigError(
        "The memory " + config.recipe.memory.name +
        " makes updates of gradients, and a torch optimizer would take them "
        "for gradients: residual and dgc are the memories for PyTorch.");
  static_cast<void>(config.recipe.clipped(config.clip, 1, 1, 1));
  const auto compressor = make_compressor(
      with_shared(config.recipe.compressor, config.recipe.collective), layout);
  const auto alone = make_inproc(1);
  static_cast<void>(
      make_collective(config.recipe.collective, *alone[0], *compressor, layout));
  static_cast<void>(make_schedule(config.recipe.schedule, config.density));
}

}  // namespace

Config Config::parse(const std::string& scheme, const std::string& memory,
                     const std::string& compressor, const std::string& collective,
                     double density, const std::string& schedule,
                     std::uint64_t steps_per_epoch, double clip,
                     std::uint64_t coordinates, const std::vector<std::string>& rules,
                     bool rollback) {
  Config config;
  config.recipe = engine::Recipe::of(scheme);
  if (!memory.empty()) config.recipe.memory = Spec::parse(memory);
  if (!compressor.empty()) config.recipe.compressor = Spec::parse(compressor);
  if (!collective.empty()) config.recipe.collective = Spec::parse(collective);
  config.density = density;
  if (!schedule.empty()) config.recipe.schedule = Spec::parse(schedule);
  config.steps_per_epoch = steps_per_epoch;
  config.clip = clip;
  config.coordinates = coordinates;
  for (const std::string& rule : rules) config.rules.push_back(engine::Rule::parse(rule));
  config.rollback = rollback;
  try_out(config);
  return config;
}

}  // namespace topknot::python
