// SPDX-License-Identifier: Apache-2.0
#include "node_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <utility>

namespace topknot::python {

NodeShards::NodeShards(Group node, const Layout& bucket) : node_(std::move(node)) {
  const auto ranks = static_cast<std::uint64_t>(node_->getSize());
  for (const TensorSlot& tensor : bucket.tensors) {
    const std::uint64_t width = (tensor.size() + ranks - 1) / ranks;
    pieces_.push_back({static_cast<std::int64_t>(tensor.size()),
                       static_cast<std::int64_t>(layout_.size()),
                       static_cast<std::int64_t>(width)});
    std::vector<std::uint64_t> shape = {width};
    if (tensor.shape.size() > 1) shape.insert(shape.begin(), 1);
    layout_.tensors.push_back({tensor.name, layout_.size(), std::move(shape)});
  }
}

// `copy` gets what lies in the bucket, and its place in the rows: whole pieces together, then
// the one that is cut off.
template <typename Copy>
void NodeShards::for_each_piece(const at::Tensor& bucket, Copy copy) {
  const at::Tensor flat = bucket.view({-1});
  std::int64_t offset = 0;
  for (const Piece& piece : pieces_) {
    if (piece.size == 0) continue;
    const at::Tensor columns = rows_.narrow(1, piece.begin, piece.width);
    const std::int64_t whole = piece.size / piece.width;
    const std::int64_t rest = piece.size - whole * piece.width;
    copy(flat.narrow(0, offset, whole * piece.width).view({whole, piece.width}),
         columns.narrow(0, 0, whole));
    offset += whole * piece.width;
    if (rest > 0)
      copy(flat.narrow(0, offset, rest).view({1, rest}),
           columns.narrow(0, whole, 1).narrow(1, 0, rest));
    offset += rest;
  }
}

at::Tensor NodeShards::scatter(const at::Tensor& bucket) {
  const c10::NoGradGuard no_grad;
  if (!rows_.defined()) {
    const auto width = static_cast<std::int64_t>(layout_.size());
    const at::TensorOptions options = bucket.options().dtype(at::kFloat);
    rows_ = at::zeros({node_->getSize(), width}, options);
    shard_ = at::empty({width}, options);
  }
  for_each_piece(bucket,
                 [](const at::Tensor& values, at::Tensor place) { place.copy_(values); });
  at::Tensor all = rows_.view({-1});
  node_->reduce_scatter_single(shard_, all)->wait();
  return shard_;
}

bool NodeShards::gather(at::Tensor bucket) {
  const c10::NoGradGuard no_grad;
  shard_.div_(node_->getSize());
  at::Tensor all = rows_.view({-1});
  node_->all_gather_single(all, shard_)->wait();
  // A shard is all finite, or all NaN.
  const bool finite =
      rows_.numel() == 0 || rows_.select(1, 0).isfinite().all().item<bool>();
  if (finite) {
    for_each_piece(
        bucket, [](at::Tensor values, const at::Tensor& place) { values.copy_(place); });
  } else {
    bucket.fill_(std::numeric_limits<float>::quiet_NaN());
    rows_.zero_();  // the padding, too
  }
  return finite;
}

}  // namespace topknot::python
