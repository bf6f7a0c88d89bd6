// SPDX-License-Identifier: Apache-2.0
#include "store/fold.h"

#include "store/checkpoint.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr const char* kMark = "fold:";

std::string mark_of(std::string_view name) { return kMark + std::string(name); }

}  // namespace

void mark_folded(Container& own, const std::string& name) {
  if (own.at(name).dtype != Dtype::f32)
    throw ContractError("Only F32 can be folded, and '" + name + "' is " +
                        std::string(name_of(own.at(name).dtype)) + ".");
  own.metadata[mark_of(name)] = "mean over the ranks";
}

bool is_folded(const Container& own, std::string_view name) {
  return own.metadata.contains(mark_of(name));
}

void Fold::add(const Container& shard, const std::string& what) {
  for (const auto& [name, array] : shard.arrays()) {
    if (!is_folded(shard, name)) continue;
    const auto values = shard.values<float>(name);
    Sum& sum = sums_[name];
    if (sum.values.empty()) {
      sum.shape = array.shape;
      sum.values.resize(values.size());
    }
    if (sum.shape != array.shape)
      throw DataError(what + " has another shape at '" + name +
                      "' than the shards before it.");
    for (std::size_t i = 0; i < values.size(); ++i) sum.values[i] += values[i];
  }
}

Container Fold::take(double scale) {
  Container folded;
  while (!sums_.empty()) {
    const auto node = sums_.extract(sums_.begin());
    const Sum& sum = node.mapped();
    std::vector<float> values(sum.values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(sum.values[i] * scale);
    folded.keep(node.key(), std::move(values), sum.shape);
    mark_folded(folded, node.key());
  }
  return folded;
}

}  // namespace topknot::store
