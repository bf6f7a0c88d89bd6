// SPDX-License-Identifier: Apache-2.0
//
// Which parameter goes into which bucket, and in which order the buckets are reduced.
//
// Backward readies the gradients in about the reverse of the forward order. So buckets are
// filled from the last parameter to the first, until the next one would not fit under the
// cap, and take their turns in that order: the first can set out while most of backward is
// still to come. Parameters of another density are filled into buckets of their own, for k is
// a bucket's; those take their turn by the parameter they wait for longest. The fused dense
// bucket has something of every layer, is complete last and goes last.
//
// Inside a bucket parameters keep their forward order, so that one bucket for all is the
// model's flat vector.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/rules.h"
#include "topknot/layout.h"

namespace topknot::engine {

/// One bucket to be made.
struct BucketPlan {
  Layout layout;                        ///< offsets are the bucket's own
  std::vector<std::size_t> parameters;  ///< positions in the model, as in `layout`
  bool fused = false;                   ///< the one of all parameters that are sent whole
};

/// The buckets for `groups` of `parameters`, by turn. No bucket grows beyond `cap` bytes by a
/// second parameter; 0 is no cap. With `fuse` the group of density 1 is one bucket whatever
/// the cap. Parameters without coordinates are in no bucket. Throws ConfigError for a
/// parameter of 2^32 coordinates or more, or for two of one name.
std::vector<BucketPlan> plan_buckets(const Layout& parameters,
                                     const std::vector<DensityGroup>& groups,
                                     std::uint64_t cap, bool fuse);

}  // namespace topknot::engine
