// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace topknot::train {

/// Frames of utterances, none of which is empty.
struct Frames {
  torch::Tensor values;  ///< (utterance, frame, feature), zero beyond each end
  std::vector<std::int64_t> lengths;  ///< of the utterances, in frames
};

/// Spectrograms in, letters out.
class AcousticModel : public torch::nn::Module {
 public:
  /// Logarithms of the letters' probabilities, (utterance, frame, letter): frames may be fewer
  /// than they were. What is dropped is drawn from `draws`; without it nothing is.
  virtual Frames forward(const Frames& spectrograms, at::Generator* draws) = 0;
};

/// What a model is to be made for; its weights are from `seed` alone.
struct AcousticShape {
  std::int64_t features = 0;  ///< of a frame
  std::int64_t letters = 0;   ///< the blank among them
  std::uint64_t seed = 0;
};

}  // namespace topknot::train
