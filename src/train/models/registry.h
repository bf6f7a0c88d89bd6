// SPDX-License-Identifier: Apache-2.0
//
// Models by name, as job/models.def lists them. All models of a task have one interface and
// factories of one type, which gets the model's parameters and what the task knows of its data.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "topknot/params.h"
#include "train/models/acoustic_model.h"
#include "train/models/language_model.h"
#include "train/models/network.h"
#include "train/models/pair_model.h"
#include "train/models/rating_model.h"

namespace topknot::train {

/// The tasks, and what makes a model for each.
namespace made_for {
struct images {
  using Factory = std::shared_ptr<Network>(Params&, const NetworkShape&);
};
struct language {
  using Factory = std::shared_ptr<LanguageModel>(Params&, std::int64_t words);
};
struct bert {
  using Factory = std::shared_ptr<PairModel>(Params&, std::int64_t pieces);
};
struct ratings {
  using Factory = std::shared_ptr<RatingModel>(Params&, const RatingShape&);
};
struct speech {
  using Factory = std::shared_ptr<AcousticModel>(Params&, const AcousticShape&);
};
}  // namespace made_for

/// The factories, each defined in its model's own file.
namespace model {
#define MODEL(name, task, summary) made_for::task::Factory name;
#include "job/models.def"
}  // namespace model

/// The factory of a model of the task. Throws ConfigError, with the nearest name, when there is
/// none with this name.
template <typename Task>
typename Task::Factory& find_factory(std::string_view wanted);

/// The model that `spec` names, as make_model<made_for::images>(spec, shape). Throws ConfigError
/// for a name or a parameter that there is not.
template <typename Task, typename... Arguments>
auto make_model(Spec spec, Arguments&&... arguments) {
  auto made =
      find_factory<Task>(spec.name)(spec.params, std::forward<Arguments>(arguments)...);
  spec.params.refuse_unknown(spec.name);
  return made;
}

}  // namespace topknot::train
