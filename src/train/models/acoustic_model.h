// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace topknot::train {

/// The frames of some utterances, none of which is empty.
struct Frames {
  torch::Tensor values;  ///< (utterance, frame, feature), zero beyond each end
  std::vector<std::int64_t> lengths;  ///< of the utterances, in frames
};

/// Spectrograms in, letters out.
class AcousticModel : public torch::nn::Module {
 public:
  /// Logarithms of the letters' probabilities, (utterance, frame, letter). There may be fewer
  /// frames than in the input. Dropout draws from `draws`; null: no dropout.
  virtual Frames forward(const Frames& spectrograms, at::Generator* draws) = 0;
};

/// The data that a model is made for. Its weights depend on `seed` alone.
struct AcousticShape {
  std::int64_t features = 0;  ///< of a frame
  std::int64_t letters = 0;   ///< the blank among them
  std::uint64_t seed = 0;
};

}  // namespace topknot::train
