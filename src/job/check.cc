// SPDX-License-Identifier: Apache-2.0
//
// Checks of a job that need neither data nor other ranks nor torch: every name but that of the
// data set is looked up.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/recipe.h"
#include "engine/rules.h"
#include "job/auto_scheme.h"
#include "job/engine_options.h"
#include "job/job.h"
#include "job/models.h"
#include "job/optimizer.h"
#include "job/rates.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

namespace topknot::train {
namespace {

// The collective's parameters may depend on the ranks; the engine reads them.
void check_exchange(const Job& job) {
  const engine::Recipe recipe = engine::Recipe::of(job);
  make_memory(recipe.memory, Layout::flat(1));
  make_compressor(with_shared(recipe.compressor, recipe.collective), Layout::flat(1));
  collective_parameters(recipe.collective.name);
  check_pair(recipe.compressor, recipe.collective);
  make_schedule(recipe.schedule, job.density);
  static_cast<void>(engine::Densities(job));
}

void check_nonfinite(const Job& job) {
  if (job.nonfinite != "abort" && job.nonfinite != "skip")
    throw ConfigError("The key nonfinite cannot be " +
                      (job.nonfinite.empty() ? "empty" : job.nonfinite) +
                      "; it is abort or skip.");
}

void check_kind(const Job& job) {
  if (job.exchange != "auto" && job.exchange != "updates" && job.exchange != "gradients")
    throw ConfigError("The key exchange cannot be " +
                      (job.exchange.empty() ? "empty" : job.exchange) +
                      "; it is auto, updates or gradients.");
  Settling::parse(job.settle);
}

void check_evaluation(const Job& job) {
  if (!job.evaluate && Spec::parse(job.lr_schedule).name == "plateau")
    throw ConfigError(
        "The schedule plateau follows the test loss, so it cannot be without evaluation: "
        "leave evaluate true, or take another lr_schedule.");
}

// Of a job as it is run.
void check_memory(const Job& job) {
  const Spec memory = memory_of(job);
  const bool makes_updates =
      make_memory(memory, Layout::flat(1))->units() == Units::updates;
  if (makes_updates && job.local_steps > 1)
    throw ConfigError("The memory " + memory.name +
                      " takes a step on every gradient, and local steps are the "
                      "optimizer's: leave the memory out with them.");
  if (job.exchange == "updates" && job.local_steps > 1 && memory.name != "residual" &&
      memory.name != "none")
    throw ConfigError("The memory " + memory.name +
                      " is for gradients: with local steps of updates it is residual.");
  if (job.local_steps == 1 && makes_updates != (job.exchange == "updates"))
    throw ConfigError("The memory " + memory.name + " makes " +
                      (makes_updates ? "updates" : "no updates") + " of gradients: set " +
                      (makes_updates ? "exchange=updates." : "exchange=gradients."));
}

}  // namespace

void check(const Job& job) {
  if (is_auto(job)) {
    check(sparse_side(job));
    return check(dense_side(job));
  }
  find_model(Spec::parse(job.model).name);
  check_nonfinite(job);
  check_kind(job);
  check_evaluation(job);
  make_optimizer(Spec::parse(job.optimizer), {});
  engine::Recipe::of(job);  // looks the names of the exchange up
  std::vector<std::string> notices;
  const Job as_run = prepared(job, notices);
  check_exchange(as_run);
  check_memory(as_run);
  make_optimizer(Spec::parse(as_run.outer), {});
  Rates(Spec::parse(job.lr_schedule), job.lr, job.warmup, job.warmup_from,
        static_cast<double>(job.epochs));
}

}  // namespace topknot::train
