// SPDX-License-Identifier: Apache-2.0
#include "train/models/registry.h"

#include <concepts>
#include <string>

#include "job/models.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

template <typename Wanted, typename Task>
void match(typename Task::Factory& factory, bool named,
           typename Wanted::Factory*& found) {
  if constexpr (std::same_as<Wanted, Task>)
    if (named) found = factory;
}

}  // namespace

template <typename Task>
typename Task::Factory& find_factory(std::string_view wanted) {
  typename Task::Factory* found = nullptr;
#define MODEL(name, task, summary) \
  match<Task, made_for::task>(model::name, wanted == #name, found);
#include "job/models.def"
  if (found != nullptr) return *found;
  const ModelEntry& other = find_model(wanted);
  throw ConfigError("The model " + std::string(wanted) + " is for the task " +
                    std::string(other.task) + ".");
}

#define TASK(name, summary) \
  template made_for::name::Factory& find_factory<made_for::name>(std::string_view);
#include "job/models.def"

}  // namespace topknot::train
