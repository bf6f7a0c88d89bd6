// SPDX-License-Identifier: Apache-2.0
//
// What becomes of the ranks' own arrays when there are P' ranks where there were P. An
// update is the mean over the ranks, so what is owed counts 1/P a rank; new rank j takes
// over the residuals of the ranks w with w mod P' == j, and what was worth 1/P must be worth
// as much at 1/P':
//
//     new_j  =  (P'/P) * sum of old_w over w mod P' == j
//     (1/P') * sum over j of new_j  ==  (1/P) * sum over w of old_w
//
// What was averaged is the mean of the same ranks instead.
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
  /// Which of what a shard has marked is wanted of it.
  enum class Of { all, averaged };
  /// Joins what `shard` has marked. Throws DataError, naming the shard `what`, when an
  /// array has another shape than that of the same name before.
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
