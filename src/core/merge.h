// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sparse vectors whose positions increase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topknot/sparse.h"

namespace topknot::core {

/// Replaces `out` with a + b: every position of either, values added where both have it
/// (a's first). A sum that cancels to zero stays, as a zero. `out` is neither of them.
void add(SparseView a, SparseView b, Sparse& out);

/// Replaces `out` with the positions that are in both.
void intersect(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
               std::vector<std::uint32_t>& out);

/// Where each region begins among sorted positions: part j of `index` is [at[j], at[j+1])
/// and has the positions in [cuts[j], cuts[j+1]). `at` gets cuts.size() entries. `cuts`
/// never decreases.
void split(std::span<const std::uint32_t> index, std::span<const std::uint64_t> cuts,
           std::vector<std::size_t>& at);

/// Replaces `places` with those i for which a[i] is in b, too.
void common_places(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                   std::vector<std::uint32_t>& places);

/// Leaves in `pairs` those for whose values keep(value) holds, in order. It asks once for
/// each value, in order. Nothing branches on the answer.
template <typename Keep>
void keep_if(Sparse& pairs, Keep keep) {
  std::uint32_t* const index = pairs.index.data();
  float* const value = pairs.value.data();
  const std::size_t size = pairs.size();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const float v = value[i];
    index[kept] = index[i];
    value[kept] = v;
    kept += static_cast<std::size_t>(keep(v));
  }
  pairs.resize(kept);
}

/// Takes out the pairs whose value is zero.
void drop_zeros(Sparse& pairs);

/// dense[index[i]] = value[i].
void scatter(SparseView pairs, std::span<float> dense);

/// dense[index[i]] += value[i].
void scatter_add(SparseView pairs, std::span<float> dense);

/// dense[index[i]] = 0.
void erase(std::span<const std::uint32_t> index, std::span<float> dense);

/// dense[index[i]] /= divisor, which is also what `out` becomes, where it is not empty.
void divide(std::span<const std::uint32_t> index, float divisor, std::span<float> dense,
            std::span<float> out);

/// out[i] = dense[index[i]]; `out` is as long as `index`.
void gather(std::span<const float> dense, std::span<const std::uint32_t> index,
            std::span<float> out);

}  // namespace topknot::core
