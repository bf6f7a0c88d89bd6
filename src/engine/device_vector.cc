// SPDX-License-Identifier: Apache-2.0
#include "engine/device_vector.h"

#include "topknot/transports.h"

namespace topknot::engine {
namespace {

bool needs_host(const Spec& collective) {
  const auto alone = make_inproc(1);
  const Layout layout = Layout::flat(1);
  const auto compressor = make_compressor({"topk", {}}, layout);
  return make_collective(collective, *alone[0], *compressor, layout)->needs_host();
}

}  // namespace

std::string why_on_the_host(const EngineOptions& options) {
  const Recipe recipe = Recipe::of(options);
  if (recipe.compressor.name != "topk")
    return "A device selects exactly the k largest, as compressor=topk does; " +
           recipe.compressor.name + " selects on the host.";
  if (needs_host(recipe.collective))
    return "The collective " + recipe.collective.name +
           " reads more of the residual than was selected, and needs it on the host.";
  if (recipe.memory.name != "residual" && recipe.memory.name != "dgc")
    return "On a device the memory is residual or dgc, and " + recipe.memory.name +
           " is on the host.";
  if (options.clip != 0 || recipe.memory.params.given("clip") != nullptr)
    return "A gradient is clipped on the host.";
  return "";
}

}  // namespace topknot::engine
