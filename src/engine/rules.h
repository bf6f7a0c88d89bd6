// SPDX-License-Identifier: Apache-2.0
//
// Which tensors are sparsified, and how much: rules by parameter name.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/engine.h"
#include "topknot/layout.h"

namespace topknot::engine {

/// Whether `name` matches `glob`, in which * stands for any characters, dots among them, and
/// ? for one. Takes time in the product of the lengths at worst.
bool matches(std::string_view glob, std::string_view name);

/// The density of the tensors whose names match. The first rule that matches counts.
struct Rule {
  std::string glob;
  double density = 1;  ///< 1: sent whole, with the biases and norms

  /// "classifier.*=dense" or "embed*=0.05". Throws ConfigError for anything else.
  static Rule parse(std::string_view text);
};

/// Tensors that share a density, as positions in a Layout, in its order.
struct DensityGroup {
  double density = 1;
  std::vector<std::size_t> tensors;
};

/// The densities that options give to tensors: by the first rule that matches; else tensors
/// of one dimension, biases and norms, are sent whole where `dense_vectors`, since they are
/// few and sensitive; else the options' density. With a dense collective all are sent whole.
class Densities {
 public:
  /// Throws ConfigError for a rule that cannot be read.
  explicit Densities(const EngineOptions& options);

  /// The tensors of `layout`, by density in ascending order.
  std::vector<DensityGroup> group(const Layout& layout) const;
  /// The same by rules and shapes alone, whatever EngineOptions::whole names: by these buckets are
  /// made.
  std::vector<DensityGroup> group_for_buckets(const Layout& layout) const;
  /// Whether tensors of density 1 are sent by a dense sum of their own, beside others that are
  /// sparse. Where density 1 is asked of all, the scheme's own collective reduces them.
  bool sets_whole_apart() const noexcept { return density_ != 1; }
  bool sends_whole(const DensityGroup& group) const noexcept {
    return sets_whole_apart() && group.density == 1;
  }
  /// By tensor of `layout` whether all of it is sent on every step.
  std::vector<bool> sent_whole(const Layout& layout) const;

 private:
  double by_rules(const TensorSlot& tensor) const;

  std::vector<Rule> rules_;
  double density_;
  bool dense_vectors_;
  std::set<std::string, std::less<>> whole_;
};

}  // namespace topknot::engine
