// SPDX-License-Identifier: Apache-2.0
//
// In rounds of local steps every rank's Adam keeps the squares of its own gradients alone. Of a
// rare feature, such as a row of an embedding, it sees a P-th of the gradients, and estimates
// poorly. So the ranks agree on their squares in two ways:
//
//   rows   After a round the ranks average the mean square of each row, and each rank scales its
//          row to that mean. A row that one rank saw and the others did not is what differs most
//          between them; within a row the ranks differ little. On WikiText-2 that is half of what
//          rounds of local Adams lose against dense (docs/accuracy.md).
//   all    Every 64 rounds the ranks replace all squares with their mean. On NCF that is the last
//          half point of hit rate.
//
// Both are dense exchanges in bf16. A row is what one index of the first dimension holds; a
// vector is one row.
//
// Cost    rows: at most 1/512 of dense's bytes; where rows are short, they are averaged after
//         fewer rounds. all: every 64 rounds half the bytes of a dense f32 exchange, a seventh of
//         what the rounds themselves send; while it lasts some 14 bytes a weight.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "job/optimizer.h"
#include "topknot/transports.h"
#include "train/replica.h"

namespace topknot::train {

class SecondMoments {
 public:
  /// The rounds from one mean of all squares to the next.
  static constexpr std::uint64_t kEvery = 64;
  /// The means of rows take at most one in so many of dense's bytes.
  static constexpr std::uint64_t kRowShare = 512;

  /// A round has `local_steps`. All arguments must outlive the object. All ranks make one, or
  /// none.
  SecondMoments(Optimizer& optimizer, Replica& replica, Transport& link, int local_steps);

  /// `rounds` have been exchanged: averages what is due. Returns the bytes sent. Squares whose
  /// sum is not finite stay each rank's own.
  std::uint64_t after_round(std::uint64_t rounds);

  /// The rounds from one mean of the rows to the next.
  std::uint64_t rows_every() const noexcept { return rows_every_; }

 private:
  std::size_t row_length(std::size_t parameter) const;
  /// All rows of all parameters, in order.
  std::vector<std::span<float>> rows();
  void average_rows();
  void average_all();

  Optimizer& optimizer_;
  Replica& replica_;
  std::shared_ptr<Traffic> traffic_;
  std::unique_ptr<Transport> channel_;  // null where there is nothing to average
  std::uint64_t rows_every_ = 1;
};

}  // namespace topknot::train
