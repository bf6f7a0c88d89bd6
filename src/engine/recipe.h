// SPDX-License-Identifier: Apache-2.0
//
// What a bucket is reduced with: the parts of a scheme, each with its parameters.
#pragma once

#include <cstdint>
#include <string_view>

#include "topknot/catalog.h"
#include "topknot/engine.h"

namespace topknot::engine {

struct Recipe {
  Spec memory;
  Spec compressor;
  Spec collective;
  Spec schedule = {"constant", {}};  ///< of the density; the bucket's owner follows it

  /// The parts that the catalog's line for `scheme` names.
  static Recipe of(std::string_view scheme);
  /// The same for the scheme of `options`, with the parts that these replace.
  static Recipe of(const EngineOptions& options);

  /// The same for tensors that are sent whole. The memory stays where it does more than keep
  /// a residual: dgc's has the momentum. A memory of updates does not stay: an optimizer
  /// behind the exchange of whole gradients is the dense optimizer itself.
  Recipe whole() const;

  /// The same where the gradient of all `coordinates` is to be no longer than `clip`. Each of
  /// `ranks` clips its own gradient at clip / sqrt(ranks) before that joins the residual. A
  /// bucket of `size` coordinates gets sqrt(size / coordinates) of it, so that the whole
  /// gradient keeps the bound. 0 is no clipping. Throws ConfigError for a memory that does not
  /// clip.
  Recipe clipped(double clip, int ranks, std::uint64_t size,
                 std::uint64_t coordinates) const;
};

/// Whether a memory clips the gradient itself, before it joins the residual.
bool clips(const Spec& memory);

/// Makes one of each part that `options` name. Throws ConfigError for parts, parameters and
/// combinations that do not exist: now, and not in the first step.
void check(const EngineOptions& options);

}  // namespace topknot::engine
