// SPDX-License-Identifier: Apache-2.0
//
// What becomes of the ranks' own arrays when their number changes from P to P'. An update is the
// mean over the ranks, so each residual has the weight 1/P. New rank j takes over the residuals of
// the ranks w with w mod P' == j, scaled so that the mean over the ranks stays the same:
//
//     new_j  =  (P'/P) * sum of old_w over w mod P' == j
//     (1/P') * sum over j of new_j  ==  (1/P) * sum over w of old_w
//
// Arrays that are averaged become the mean over the same ranks instead.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/container.h"

namespace topknot::store {

/// Adds shards up in double precision; one shard need be in memory at a time.
class Fold {
 public:
  /// Which of the marked arrays of a shard to take.
  enum class Of { all, averaged };
  /// Adds the marked arrays of `shard`. Throws DataError, which calls the shard `what`, when an
  /// array has another shape than an earlier one of the same name.
  void add(const Container& shard, const std::string& what, Of wanted = Of::all);

  /// The sums times `scale`, or the means, rounded to f32 once, and marked again.
  Container take(double scale);

 private:
  struct Sum {
    Shape shape;
    std::vector<double> values;
    bool averaged = false;
    int shards = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace topknot::store
