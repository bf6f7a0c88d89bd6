// SPDX-License-Identifier: Apache-2.0
//
// One flat vector that is reduced as a whole, a bucket of the model's parameters, whose
// tensors may have different densities.
//
//   vector     [ conv1.weight | conv1.bias | conv2.weight | conv2.bias ]
//   in place   [ conv1.weight | 0          | conv2.weight | 0          ]   1 %
//   apart      [ conv1.bias | conv2.bias ]                                 whole
//
// Each density is a part with a Bucket of its own. The largest part is reduced where it is,
// so that it is never copied; the tensors of the others are zeros in it, which change no sum.
// The other parts are copied out, reduced as vectors of their own, and copied back.
// A vector of one density, as the engine's own buckets are, is one part in place.
//
// On a device the part in place is selected there; parts apart are copied to the host whole, and so
// is a part that is sent whole, which is never in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/bucket.h"
#include "engine/device_vector.h"
#include "engine/rules.h"
#include "topknot/schedule.h"

namespace topknot::engine {

/// Sums over steps, of one slot or of several.
struct Totals {
  std::uint64_t steps = 0;
  std::uint64_t nonfinite = 0;
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

class Slot {
 public:
  /// Takes channels of `link` from `next_channel` on. `densities` are those of `options`.
  /// `coordinates`: of the whole gradient, of which this vector is a bucket; for clipping.
  /// With `device` the vector, and the residual of the part in place, are there.
  Slot(Layout layout, const EngineOptions& options, const Densities& densities,
       std::uint64_t coordinates, Transport& link, int& next_channel,
       std::shared_ptr<DeviceVector> device = nullptr);

  /// Replaces `x` with the mean that the ranks agreed on in step number `step`. Where the
  /// trace says that it was not finite, `x` is not to be used, and undo() must be called.
  StepTrace step(std::span<float> x, std::uint64_t step, double learning_rate);
  /// The same for the slot's vector on its device.
  StepTrace step_on_device(std::uint64_t step, double learning_rate);
  /// Replaces `x` with its mean, by a dense sum. No residual takes part.
  StepTrace step_whole(std::span<float> x);
  /// The trace of a step in which this vector is not exchanged.
  StepTrace leave_out(std::uint64_t step);
  /// The last step() is not applied, on any rank: see Bucket::undo().
  void undo();

  /// Replaces `x` with the mean of all ranks' residuals, by a dense sum. Where it is applied,
  /// clear_residuals() follows.
  StepTrace average_residuals(std::span<float> x);
  void clear_residuals();

  /// The positions in `x` at which the last step() settled this rank's residual, in ascending
  /// order; empty where it settled all of it.
  std::vector<std::int64_t> settled() const;

  void save(State& state);
  void load(const State& state);

  const Layout& layout() const noexcept { return layout_; }
  const Totals& totals() const noexcept { return totals_; }
  /// Of the part in place: of all tensors, where they have one density.
  Units units() const noexcept { return parts_.back().bucket->units(); }
  std::uint64_t memory_bytes() const;
  void add_traffic(Traffic& total) const;
  double residual_squares() const;

 private:
  struct Part {
    std::unique_ptr<Bucket> bucket;
    std::unique_ptr<Schedule> schedule;
    std::size_t size = 0;       // of its tensors
    std::vector<Piece> pieces;  // where they are in the vector
    bool in_place = false;
    std::vector<float> apart;  // a copy of them, unless in place
    bool stepped = false;      // and was finite, in the last step()
    std::vector<float> sum;  // of a part in place on a device: zero but for the last mean
  };

  /// The layout of its bucket: of its own tensors, or in place of all of them.
  Layout place_tensors(const DensityGroup& group, Part& part) const;
  template <typename Vector, typename Exchange>
  StepTrace in_parts(Vector& x, Exchange exchange);
  template <typename Vector>
  StepTrace step_parts(Vector& x, std::uint64_t step, double learning_rate);
  StepTrace step_part(Part& part, std::span<float> own, std::uint64_t step,
                      double learning_rate);
  void count(const StepTrace& trace);

  const Layout layout_;
  const std::shared_ptr<DeviceVector> device_;  // null: the vector is in host memory
  std::vector<Part> parts_;                     // the one in place comes last
  Totals totals_;
};

}  // namespace topknot::engine
