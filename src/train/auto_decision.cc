// SPDX-License-Identifier: Apache-2.0
#include "train/auto_decision.h"

#include <algorithm>

#include "engine/recipe.h"
#include "engine/rules.h"
#include "job/auto_scheme.h"
#include "job/engine_options.h"
#include "store/checkpoint.h"
#include "train/channels.h"
#include "train/checkpoint_policy.h"
#include "train/passes.h"

namespace topknot::train {
namespace {

std::vector<sim::ChosenBucket> buckets_of(const Job& job, Replica& replica) {
  const engine::Densities densities(job);
  std::vector<sim::ChosenBucket> buckets;
  for (const Layout& layout : replica.engine().buckets()) {
    const std::vector<bool> whole = densities.sent_whole(layout);
    buckets.push_back({.coordinates = layout.size(),
                       .whole = std::ranges::all_of(whole, [](bool is) { return is; })});
  }
  return buckets;
}

}  // namespace

Job AutoDecision::decide(const Job& job, Task& task, std::vector<std::string>& notices) {
  if (!is_auto(job)) return job;
  const std::string before = decided_before();
  if (before.empty()) return measure(job, task, notices);
  const AutoChoice choice = AutoChoice::parse(before);
  notices.push_back(std::string("auto takes ") +
                    (choice.sparse ? sparse_side(job).scheme : "dense") +
                    ", as was decided when the run began.");
  return choice.apply(job);
}

std::string AutoDecision::decided_before() {
  if (!options_.resume || options_.checkpoints.empty()) return {};
  store::CheckpointFolder folder(store::disk(), options_.checkpoints.string());
  const auto link = link_.channel(kDecidedChannel);
  const store::Loaded from = folder.load(*link);
  const auto found = from.shared.metadata.find(kAutoChoice);
  return found == from.shared.metadata.end() ? "" : found->second;
}

Job AutoDecision::measure(const Job& job, Task& task, std::vector<std::string>& notices) {
  observer_.on_activity({.what = "measuring the exchange"});
  const std::string name = sparse_side(job).scheme;
  std::vector<std::string> unsaid;
  const Job sparse = prepared(sparse_side(job), unsaid);
  AutoChoice made;
  {
    const EngineOptions options = engine_options(sparse, kTrialChannel);
    Replica trial(task.model(), link_, options);
    choice_ = sim::choose(link_, kChoiceChannel,
                          {.recipe = engine::Recipe::of(options),
                           .density = sparse.density,
                           .every = static_cast<std::uint64_t>(sparse.local_steps)},
                          buckets_of(sparse, trial),
                          link_.size() > 1 ? time_passes(sparse, task, trial) : 0);
    made.sparse = choice_.any_sparse();
    if (made.sparse)
      for (std::size_t i = 0; i < choice_.buckets.size(); ++i)
        if (!choice_.buckets[i].sparse && !choice_.buckets[i].whole)
          for (const TensorSlot& tensor : trial.engine().buckets()[i].tensors)
            made.whole.push_back(tensor.name);
  }
  notices.push_back(choice_.reason(name));
  return made.apply(job);
}

}  // namespace topknot::train
