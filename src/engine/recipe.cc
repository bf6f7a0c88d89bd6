// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/plant.h"
#include "core/text.h"
#include "engine/rules.h"
#include "topknot/error.h"
#include "topknot/schedule.h"
#include "topknot/transports.h"

namespace topknot::engine {

Recipe Recipe::of(std::string_view scheme) {
  SchemeParts parts = parse_scheme(scheme);
  return {std::move(parts.memory), std::move(parts.compressor),
          std::move(parts.collective), std::move(parts.schedule)};
}

Recipe Recipe::of(const EngineOptions& options) {
  Recipe recipe = of(options.scheme);
  if (!options.memory.empty()) recipe.memory = parse_memory(options.memory);
  if (!options.compressor.empty())
    recipe.compressor = parse_compressor(options.compressor);
  if (!options.collective.empty())
    recipe.collective = parse_collective(options.collective);
  if (!options.schedule.empty()) recipe.schedule = Spec::parse(options.schedule);
  return recipe;
}

Recipe Recipe::whole() const {
  Recipe made = *this;
  if (make_memory(memory, Layout::flat(1))->units() == Units::updates)
    made.memory = Spec::parse("none");
  made.collective = Spec::parse("dense");
  made.compressor = Spec::parse("topk");  // a dense sum selects nothing
  return made;
}

Recipe Recipe::clipped(double clip, int ranks, std::uint64_t size,
                       std::uint64_t coordinates) const {
  Recipe made = *this;
  if (!(clip >= 0 && std::isfinite(clip)))
    throw ConfigError("A clip of " + core::shortest(clip) +
                      " is no length: it is 0, for none, or more.");
  if (clip == 0) return made;
  if (!clips(memory))
    throw ConfigError("The memory " + memory.name +
                      " does not clip, only dgc does: clip the mean that comes out.");
  const double share = static_cast<double>(size) / static_cast<double>(coordinates);
  if (TOPKNOT_PLANT(clip_not_shared)) ranks = 1;
  made.memory.params.give("clip", core::shortest(clip * std::sqrt(share / ranks)));
  return made;
}

bool clips(const Spec& memory) {
  const auto parameters = memory_parameters(memory.name);
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const Params::Declaration& one) { return one.name == "clip"; });
}

void check(const EngineOptions& options) {
  const Recipe recipe = Recipe::of(options);
  const Layout layout = Layout::flat(1);
  static_cast<void>(Densities(options));
  static_cast<void>(make_schedule(recipe.schedule, options.density));
  static_cast<void>(make_memory(recipe.memory, layout));
  static_cast<void>(recipe.clipped(options.clip, 1, 1, 1));
  check_pair(recipe.compressor, recipe.collective);
  const auto compressor =
      make_compressor(with_shared(recipe.compressor, recipe.collective), layout);
  const auto alone = make_inproc(1);
  static_cast<void>(make_collective(recipe.collective, *alone[0], *compressor, layout));
}

}  // namespace topknot::engine
