// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/dense_switch.h"

#include "core/merge.h"

namespace topknot::collective {

bool DenseSwitch::code(MessageChannel& channel, SparseView pairs, Region region, int to,
                       Message& message, std::vector<float>& error) {
  channel.code(pairs, region, to, message, error);
  if (pairs.empty() || channel.values() == core::Values::i2 ||
      message.size() < channel.dense_length(region.size()))
    return false;
  whole_.assign(region.size(), 0.0F);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    whole_[pairs.index[i] - region.begin] = pairs.value[i];
  channel.code_dense(whole_, to, message, whole_error_);
  // A zero is read as a zero: all error is at the pairs.
  for (std::size_t i = 0; i < error.size(); ++i)
    error[i] = whole_error_[pairs.index[i] - region.begin];
  return true;
}

void drop_filling(std::uint64_t size, Sparse& pairs) {
  if (pairs.size() == size) core::drop_zeros(pairs);
}

}  // namespace topknot::collective
