// SPDX-License-Identifier: Apache-2.0
//
// What `--scheme auto` decides: which buckets are exchanged sparsely, and which are sent whole.
//
// Both ways are tried over the run's own link with all ranks at work, on drawn gradients of at
// most 2^22 coordinates, at two lengths; a line through the two gives the time of any bucket. So
// latency, bandwidth, selection and coding are all in it, as this machine and network have them,
// and no model of them. The step is put together as predict.h does: gradients become ready while
// backward runs, and buckets are exchanged one after another.
//
//   dense     stays where nothing else is faster by what is worthwhile (sim/advise.h)
//   sparse    otherwise: for the buckets for which it is faster by as much. Those among them that
//             can be sent whole without a longer step, because compute hides them, are
//
// An exchange in rounds of several steps is for all buckets or none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/recipe.h"
#include "topknot/transport.h"

namespace topknot::sim {

struct ChosenBucket {
  std::uint64_t coordinates = 0;
  bool whole = false;  ///< by its rules, whatever is decided
  double dense_seconds = 0;
  double sparse_seconds = 0;
  bool sparse = false;  ///< what is decided
};

struct Choice {
  std::vector<ChosenBucket> buckets;  ///< by turn
  double compute = 0;                 ///< seconds of a step
  double dense_step = 0;              ///< seconds, all buckets dense
  double step = 0;                    ///< as decided

  bool any_sparse() const;
  /// One sentence; `sparse` is what the sparse way is called.
  std::string reason(const std::string& sparse) const;
};

/// The sparse way of an exchange, and how often it takes place.
struct SparseWay {
  engine::Recipe recipe;
  double density = 0.01;
  std::uint64_t every = 1;  ///< steps from one exchange to the next
};

/// Decides by times that are known.
Choice decide(std::vector<ChosenBucket> buckets, double compute, std::uint64_t every);

/// Measures and decides. All ranks call it with equal arguments but for `compute`, of which the
/// longest counts, and get the same bits. Takes channel `channel` of `link` for itself. One rank
/// alone has nothing to send: dense, and nothing is measured.
Choice choose(Transport& link, int channel, const SparseWay& way,
              std::vector<ChosenBucket> buckets, double compute);

}  // namespace topknot::sim
