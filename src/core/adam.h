// SPDX-License-Identifier: Apache-2.0
//
// Adam's arithmetic, for the trainer's optimizer and for the memory that steps before the exchange.
#pragma once

#include <span>

namespace topknot::core {

/// The numbers of one step, for the coordinates of
///
///     mean    <-  beta1 mean + (1 - beta1) g
///     square  <-  beta2 square + (1 - beta2) g g
///     move     =  rate mean / (sqrt(square) root + epsilon)
///
/// rounded after every operation, so that all processors compute the same bits.
struct AdamStep {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float rate = 0;  ///< with the correction of the mean's bias inside
  float root = 1;  ///< 1 / sqrt(the correction of the squares' bias)
};

/// What Adam does to the weights beside its move.
struct AdamDecay {
  float scale = 1;    ///< the gradient is multiplied by this first
  float coupled = 0;  ///< of the weight, joins the gradient
  float taken = 0;    ///< of the weight, is subtracted before the move
};

/// Moves the weights, and both moments with them. All spans have one length.
void adam_weights(std::span<float> weight, std::span<const float> gradient,
                  std::span<float> mean, std::span<float> square, const AdamStep& step,
                  const AdamDecay& decay);

/// Replaces the gradient with the move. The mean stays and the next one goes to `next`. Where the
/// new square is not finite the move is NaN and the square stays. All spans have one length.
void adam_move(std::span<float> gradient, std::span<const float> mean,
               std::span<float> next, std::span<float> square, const AdamStep& step);

}  // namespace topknot::core
