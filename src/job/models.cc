// SPDX-License-Identifier: Apache-2.0
#include "job/models.h"

#include "core/names.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::train {
namespace {

constexpr ModelEntry kModels[] = {
#define MODEL(name, task, summary) {#name, #task, summary},
#include "job/models.def"
};

}  // namespace

std::span<const ModelEntry> models() { return kModels; }

const ModelEntry& find_model(std::string_view name) {
  for (const ModelEntry& model : kModels)
    if (model.name == name) return model;
  throw ConfigError("There is no model named " + std::string(name) +
                    core::suggestion(name, model_names()) + ".");
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelEntry& model : kModels) names.emplace_back(model.name);
  return names;
}

}  // namespace topknot::train
