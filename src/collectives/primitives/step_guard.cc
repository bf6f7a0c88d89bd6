// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/step_guard.h"

#include "core/plant.h"
#include "core/select.h"

namespace topknot::collective {
void StepGuard::fold(ResidualVector& residual, std::span<float> grad) {
  note_fold(residual.fold(grad));
}

void StepGuard::select(Compressor& compressor, ResidualVector& residual,
                       std::span<float> grad, std::size_t k, Sparse& out) {
  note_fold(residual.select(compressor, grad, k, out));
}

// The parts go in order, so a part that is nonfinite has only those before it to undo.
void StepGuard::select_inside(Compressor& compressor, Region region,
                              std::span<float> residual, std::span<float> grad,
                              std::size_t k, Sparse& out) {
  const Region before{0, region.begin};
  const Region behind{region.end, residual.size()};
  std::uint64_t done = 0;
  out.clear();
  bool finite = core::fold(part_of(residual, before), part_of(grad, before));
  if (finite) {
    done = before.end;
    finite = compressor.select(part_of(residual, region), part_of(grad, region), k, out);
  }
  if (finite) {
    done = region.end;
    finite = core::fold(part_of(residual, behind), part_of(grad, behind));
  }
  if (!finite) {
    core::undo_fold(part_of(residual, {0, done}), part_of(grad, {0, done}));
    out.clear();
  }
  for (std::uint32_t& position : out.index)
    position += static_cast<std::uint32_t>(region.begin);
  note_fold(finite);
}

Reduced StepGuard::undo(ResidualVector& residual, std::span<const float> grad) {
  if (folded_step_ == channel_.step() && !TOPKNOT_PLANT(nonfinite_step_kept))
    residual.undo_fold(grad);
  folded_step_ = 0;
  return {.count = 0, .finite = false, .index = {}, .settled = {}};
}

void StepGuard::note_fold(bool finite) {
  if (finite) {
    folded_step_ = channel_.step();
  } else {
    channel_.report_nonfinite();
  }
}

}  // namespace topknot::collective
