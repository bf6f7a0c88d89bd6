// SPDX-License-Identifier: Apache-2.0
//
// How one flat gradient, a bucket of DDP's, is reduced: which of its tensors go whole and
// which are sparsified.
//
//   gradient   [ conv1.weight | conv1.bias | conv2.weight | conv2.bias ]
//   in place   [ conv1.weight | 0          | conv2.weight | 0          ]   1 %
//   lifted     [ conv1.bias | conv2.bias ]                                 whole
//
// Tensors are sorted by density: by the rules, else biases and norms go whole. The largest
// group is reduced where it is, so that it is never copied; in it the others are zeros, which
// are neither chosen nor owed. The others are copied out, reduced as vectors of their own,
// and copied back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "config.h"
#include "topknot/schedule.h"

namespace topknot::python {

/// What all steps of a plan, or of several, came to.
struct Totals {
  std::uint64_t steps = 0;
  std::uint64_t not_finite = 0;
  std::uint64_t coordinates = 0;  ///< summed over the steps, as are all below
  std::uint64_t wanted = 0;
  std::uint64_t agreed = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t sent_messages = 0;
  double select_seconds = 0;
  double wait_seconds = 0;
  double seconds = 0;

  void add(const Totals& other);
};

class Plan {
 public:
  /// Takes channels from `next_channel` on.
  Plan(Layout layout, const Config& config, Transport& link, int& next_channel);

  /// Replaces `x` with the mean of what was agreed on. Returns false when that was not
  /// finite; then `x` is all NaN, and the residuals are as before (see Config::rollback).
  /// Where `whole` all of `x` is sent, whatever the density, and no residual takes part.
  bool reduce(std::span<float> x, std::uint64_t step, bool whole = false);
  /// Replaces `x` with the mean of the residuals, by a dense sum, and makes them zero. Where
  /// that is not finite it returns false, `x` is all NaN, and the residuals are as before.
  bool settle(std::span<float> x);
  /// Where in `x` the last reduce() settled this rank's residual, in ascending order; empty
  /// where it settled all of it.
  std::vector<std::int64_t> settled() const;
  /// Undoes what the last reduce did to the residuals.
  void roll_back();

  void save(State& state);
  void load(const State& state);

  const Layout& layout() const noexcept { return layout_; }
  const Totals& totals() const noexcept { return totals_; }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t size;
  };
  struct Part {
    std::unique_ptr<engine::Bucket> bucket;
    std::unique_ptr<engine::Bucket> whole;  // where a schedule begins by sending all
    std::unique_ptr<Schedule> schedule;
    std::size_t size = 0;       // of its tensors
    std::vector<Piece> pieces;  // where they are in the gradient
    std::vector<float> lifted;  // as long as they are; empty in place
    State before;
    bool finite = true;
  };

  Part make_part(const engine::Group& group, bool in_place, const Config& config,
                 Transport& link, int& next_channel) const;
  template <typename Exchange>
  bool in_parts(std::span<float> x, Exchange exchange);
  bool run(Part& part, std::span<float> own, std::uint64_t step, bool whole);
  void count(const StepTrace& trace);

  const Layout layout_;
  const bool rollback_;
  std::vector<Part> parts_;  // the one in place comes last
  Totals totals_;
};

}  // namespace topknot::python
