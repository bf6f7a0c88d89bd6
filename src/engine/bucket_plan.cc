// SPDX-License-Identifier: Apache-2.0
#include "engine/bucket_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "topknot/error.h"

namespace topknot::engine {
namespace {

void check(const Layout& parameters) {
  std::set<std::string_view> names;
  for (const TensorSlot& tensor : parameters.tensors) {
    if (!names.insert(tensor.name).second)
      throw ConfigError("Two parameters are called " + tensor.name +
                        "; residuals are kept by name, so names must differ.");
    if (tensor.size() > kMostCoordinates)
      throw ConfigError("The parameter " + tensor.name + " has " +
                        std::to_string(tensor.size()) + " coordinates; at most " +
                        std::to_string(kMostCoordinates) + " fit into a bucket.");
  }
}

// Takes them from the back of the model to the front.
BucketPlan make(const Layout& parameters, std::vector<std::size_t> taken, bool fused) {
  std::reverse(taken.begin(), taken.end());
  BucketPlan plan;
  plan.fused = fused;
  for (const std::size_t i : taken) {
    const TensorSlot& tensor = parameters.tensors[i];
    plan.layout.tensors.push_back({tensor.name, plan.layout.size(), tensor.shape});
  }
  plan.parameters = std::move(taken);
  return plan;
}

void fill(const Layout& parameters, const DensityGroup& group, std::uint64_t most,
          bool fused, std::vector<BucketPlan>& plans) {
  std::vector<std::size_t> taken;
  std::uint64_t size = 0;
  const auto close = [&] {
    if (!taken.empty()) plans.push_back(make(parameters, std::move(taken), fused));
    taken.clear();
    size = 0;
  };
  for (auto i = group.tensors.rbegin(); i != group.tensors.rend(); ++i) {
    const std::uint64_t more = parameters.tensors[*i].size();
    if (more == 0) continue;
    if (size + more > most) close();
    taken.push_back(*i);
    size += more;
  }
  close();
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const Layout& parameters,
                                     const std::vector<DensityGroup>& groups,
                                     std::uint64_t cap, bool fuse) {
  check(parameters);
  std::vector<BucketPlan> plans;
  for (const DensityGroup& group : groups) {
    const bool fused = fuse && group.density == 1;
    const std::uint64_t most = cap == 0 || fused
                                   ? kMostCoordinates
                                   : std::min(cap / sizeof(float), kMostCoordinates);
    fill(parameters, group, most, fused, plans);
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const BucketPlan& a, const BucketPlan& b) {
                     if (a.fused != b.fused) return b.fused;
                     return a.parameters.front() > b.parameters.front();
                   });
  return plans;
}

}  // namespace topknot::engine
