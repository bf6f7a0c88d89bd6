// SPDX-License-Identifier: Apache-2.0
//
// The engine's options as a table, for bindings that take them by name.
#pragma once

#include "topknot/engine.h"

namespace topknot::engine {

/// Calls visit(name, member, meaning) for every option of how vectors are reduced. How an
/// Engine cuts a model into buckets, and its channel, are not among them.
template <typename Visit>
void for_each_option(Visit visit) {
  using Options = EngineOptions;
  visit("scheme", &Options::scheme, "a name of topknot.schemes()");
  visit("density", &Options::density, "in (0, 1]; 1 sends everything");
  visit("memory", &Options::memory,
        "instead of the scheme's, with parameters as in \"residual:decay=0.95\"");
  visit("compressor", &Options::compressor, "instead of the scheme's, as \"gaussiank\"");
  visit("collective", &Options::collective,
        "instead of the scheme's, as \"oktopk:tau=64\"");
  visit("schedule", &Options::schedule,
        "density over time instead of the scheme's: \"constant\", \"dense:steps=512\" or "
        "\"exponential:stages=4,period=100,from=0.25\"");
  visit("steps_per_epoch", &Options::steps_per_epoch,
        "for schedules that count epochs, as dgc's does; 0: not known");
  visit("clip", &Options::clip,
        "the longest gradient (L2); each rank clips its own before the residual");
  visit("rules", &Options::rules,
        "density by parameter name, the first that matches counts: \"head.*=dense\", "
        "\"embed*=0.05\"");
  visit(
      "whole", &Options::whole,
      "names of parameters that are sent whole too, in the buckets that they would be in "
      "otherwise");
  visit("dense_vectors", &Options::dense_vectors,
        "whether parameters of one dimension, biases and norms, are sent whole");
}

}  // namespace topknot::engine
