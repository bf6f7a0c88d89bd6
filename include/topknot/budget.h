// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "topknot/params.h"

namespace topknot {

/// What a user has set of an exchange of updates; 0 where nothing was set.
struct Spending {
  /// Bytes sent, as a share of those of a dense exchange in f32 on every step.
  double budget = 0;
  double density = 0;             ///< share of the coordinates in one exchange
  std::uint64_t local_steps = 0;  ///< steps from one exchange to the next
};

/// How an exchange of updates spends its bytes.
struct Split {
  std::uint64_t local_steps = 1;    ///< from one exchange to the next
  double density = 0.01;            ///< of one exchange
  std::string_view values = "f32";  ///< on the wire: f32, i8 or i2
};

/// The budget where nothing is set.
inline constexpr double kDefaultBudget = 1.0 / 64;

/// The split that keeps the budget and trains best, as far as was measured: a quarter of
/// the coordinates in 2 bits each, as often as the budget allows (docs/accuracy.md). A
/// budget of twice these bytes on every step, or more, gets 8 bits.
///
///   nothing set      the split of kDefaultBudget
///   budget           the split of this budget
///   density          so much of the coordinates in f32, on every step
///   local_steps      a quarter in 2 bits, so often
///   both of these    as they are set, in f32
///
/// Throws ConfigError for a budget beside one of the others, and for values that cannot be.
Split split(const Spending& set);

/// `collective` with these values on the wire, where it has none of its own. `dense`, which others
/// are held against, and `hierarchical`, which is dense inside a node, stay as they are.
Spec with_values(Spec collective, std::string_view values);

}  // namespace topknot
