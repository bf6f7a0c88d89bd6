// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::train {

/// A MODEL of models.def.
struct ModelEntry {
  std::string_view name;
  std::string_view task;
  std::string_view summary;
};

/// All models, in the order of models.def.
std::span<const ModelEntry> models();

/// The model with this name. Throws ConfigError, with the nearest name, when there is none.
const ModelEntry& find_model(std::string_view name);

/// The names of all models, in that order.
std::vector<std::string> model_names();

}  // namespace topknot::train
