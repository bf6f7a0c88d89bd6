// SPDX-License-Identifier: Apache-2.0
#include "store/fold.h"

#include "core/plant.h"
#include "store/checkpoint.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr const char* kMark = "fold:";
constexpr const char* kFolded = "mean over the ranks";
constexpr const char* kAveraged = "average";

std::string mark_of(std::string_view name) { return kMark + std::string(name); }

void mark(Container& own, const std::string& name, const char* how) {
  if (own.at(name).dtype != Dtype::f32)
    throw ContractError("Only F32 can be folded, and '" + name + "' is " +
                        std::string(name_of(own.at(name).dtype)) + ".");
  own.metadata[mark_of(name)] = how;
}

bool is_marked(const Container& own, std::string_view name, std::string_view how) {
  const auto found = own.metadata.find(mark_of(name));
  return found != own.metadata.end() && found->second == how;
}

}  // namespace

void mark_folded(Container& own, const std::string& name) { mark(own, name, kFolded); }
void mark_averaged(Container& own, const std::string& name) {
  mark(own, name, kAveraged);
}
bool is_folded(const Container& own, std::string_view name) {
  return is_marked(own, name, kFolded);
}
bool is_averaged(const Container& own, std::string_view name) {
  return is_marked(own, name, kAveraged);
}

void Fold::add(const Container& shard, const std::string& what, Of wanted) {
  for (const auto& [name, array] : shard.arrays()) {
    const bool averaged = is_averaged(shard, name);
    if (!averaged && (wanted == Of::averaged || !is_folded(shard, name))) continue;
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
    sum.averaged = averaged;
    ++sum.shards;
  }
}

Container Fold::take(double scale) {
  if (TOPKNOT_PLANT(fold_not_scaled)) scale = 1;
  Container folded;
  while (!sums_.empty()) {
    const auto node = sums_.extract(sums_.begin());
    const Sum& sum = node.mapped();
    const double factor = sum.averaged ? 1.0 / sum.shards : scale;
    std::vector<float> values(sum.values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(sum.values[i] * factor);
    folded.keep(node.key(), std::move(values), sum.shape);
    mark(folded, node.key(), sum.averaged ? kAveraged : kFolded);
  }
  return folded;
}

}  // namespace topknot::store
