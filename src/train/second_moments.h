// SPDX-License-Identifier: Apache-2.0
//
// In rounds of local steps every rank's Adam keeps the squares of its own gradients alone. Of a
// rare feature, such as a row of an embedding, it sees a P-th of the gradients, and estimates
// poorly. So the ranks replace their squares with the mean over all ranks now and then, by one
// dense exchange in bf16. On NCF that is the last half point of hit rate (docs/accuracy.md).
//
// Cost    every 64 rounds half the bytes of a dense f32 exchange, a seventh of what the rounds
//         themselves send; while it lasts some 14 bytes a weight.
#pragma once

#include <cstdint>
#include <memory>

#include "job/optimizer.h"
#include "topknot/transports.h"
#include "train/replica.h"

namespace topknot::train {

class SecondMoments {
 public:
  /// The rounds from one mean to the next.
  static constexpr std::uint64_t kEvery = 64;

  /// All arguments must outlive the object. All ranks make one, or none.
  SecondMoments(Optimizer& optimizer, Replica& replica, Transport& link);

  /// `rounds` have been exchanged: averages where that is due. Returns the bytes sent. Squares
  /// whose sum is not finite stay each rank's own.
  std::uint64_t after_round(std::uint64_t rounds);

 private:
  Optimizer& optimizer_;
  Replica& replica_;
  std::shared_ptr<Traffic> traffic_;
  std::unique_ptr<Transport> channel_;  // null where there is nothing to average
};

}  // namespace topknot::train
