// SPDX-License-Identifier: Apache-2.0
//
// scheme=auto: a decision between two jobs that are named in full.
//
//   sparse side   the same job with scheme=knot, and the parts, density or budget that it asks for
//   dense side    the same job with scheme=dense, and nothing of these
//
// With an exchange on every step the sparse side may send some of its buckets whole.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace topknot::train {

/// Whether the scheme is "auto", with parameters or without: those are knot's.
bool is_auto(const Job& job);

Job dense_side(Job job);
/// Throws ConfigError for a collective that is dense itself.
Job sparse_side(Job job);

struct AutoChoice {
  bool sparse = false;
  std::vector<std::string>
      whole;  ///< parameters of buckets that the sparse side sends whole

  /// One line for each word: "sparse" or "dense", then the names.
  std::string text() const;
  /// Throws ConfigError for what text() does not make.
  static AutoChoice parse(const std::string& text);
  /// The side that was chosen.
  Job apply(const Job& job) const;
};

}  // namespace topknot::train
