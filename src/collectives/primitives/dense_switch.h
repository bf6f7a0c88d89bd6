// SPDX-License-Identifier: Apache-2.0
//
// SparCML's switch: a sum that has filled up travels without positions, as the whole
// region with zeros where it has nothing, as soon as that is shorter. Every message says
// what it is, so the readers need not be told.
#pragma once

#include <vector>

#include "collectives/primitives/message_channel.h"
#include "topknot/sparse.h"

namespace topknot::collective {

class DenseSwitch {
 public:
  /// As MessageChannel::code, in the shorter of the two forms, dense when they are equal; in
  /// words, with plain positions and f32 values, dense from 2 * pairs >= region on.
  /// Returns whether it is dense. Values of two bits have no zero and so stay sparse.
  bool code(MessageChannel& channel, SparseView pairs, Region region, int to,
            Message& message, std::vector<float>& error);

 private:
  std::vector<float> whole_;
  std::vector<float> whole_error_;
};

/// Takes the zeros out of what was read, those that were filled in and those that
/// cancelled, if it has every coordinate of a region of `size`.
void drop_filling(std::uint64_t size, Sparse& pairs);

}  // namespace topknot::collective
