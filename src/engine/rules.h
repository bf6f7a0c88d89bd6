// SPDX-License-Identifier: Apache-2.0
//
// Which tensors are sparsified, and how much: rules by parameter name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/layout.h"

namespace topknot::engine {

/// Whether `name` matches `glob`, in which * stands for any letters, dots among them, and ?
/// for one. Takes time in the product of the lengths at worst.
bool matches(std::string_view glob, std::string_view name);

/// What becomes of the tensors whose names match. The first rule that matches counts.
struct Rule {
  std::string glob;
  double density = 1;  ///< 1: sent whole, with the biases and norms

  /// "classifier.*=dense" or "embed*=0.05". Throws ConfigError for anything else.
  static Rule parse(std::string_view text);
};

/// Tensors that share a density, as positions in a Layout, in its order.
struct Group {
  double density = 1;
  std::vector<std::size_t> tensors;
};

/// Sorts tensors by density: by the first rule that matches; else tensors of one dimension,
/// biases and norms, go dense where `dense_vectors`, being few and touchy; else by
/// `density`. The dense group, if there is one, comes last.
std::vector<Group> sort_by_density(const Layout& layout, const std::vector<Rule>& rules,
                                   double density, bool dense_vectors = true);

}  // namespace topknot::engine
