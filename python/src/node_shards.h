// SPDX-License-Identifier: Apache-2.0
//
// node_shards: the inner one of two levels. The ranks of a node add up a bucket among
// themselves, by their process group's own reduce-scatter, and each keeps a shard of the sum;
// when the shards have been exchanged between the nodes, the group's all-gather brings them
// together.
//
//   bucket        [ a a a a a | b b b ]          of two ranks: every tensor in two pieces
//   shard of 0    [ a a a | b b ]
//   shard of 1    [ a a 0 | b 0 ]                the last piece is padded
//
// A rank has the same piece of a tensor whatever bucket that is in, so its residual stays where
// it is when DDP makes its buckets anew.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "topknot/layout.h"

namespace topknot::python {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

class NodeShards {
 public:
  /// For buckets of this layout. Nothing else uses `node`.
  NodeShards(Group node, const Layout& bucket);

  /// That of a shard, the same on all ranks of the node. What had several dimensions still
  /// has: only vectors are sent whole.
  const Layout& layout() const noexcept { return layout_; }

  /// This rank's shard of the sum of `bucket` over the node, in f32, until the next call.
  at::Tensor scatter(const at::Tensor& bucket);
  /// Replaces `bucket` with what the ranks have made of their shards, divided by their number.
  /// Returns false, on all of them, and makes it all NaN, where a shard is not finite.
  bool gather(at::Tensor bucket);

 private:
  struct Piece {
    std::int64_t size;   // of the tensor
    std::int64_t begin;  // of the piece, in the shard
    std::int64_t width;  // of the piece
  };
  template <typename Copy>
  void for_each_piece(const at::Tensor& bucket, Copy copy);

  const Group node_;
  std::vector<Piece> pieces_;
  Layout layout_;
  at::Tensor rows_;   // all shards, by rank
  at::Tensor shard_;  // of this rank
};

}  // namespace topknot::python
