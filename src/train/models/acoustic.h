// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topknot/params.h"

namespace topknot::train {

/// Frames of utterances, none of which is empty.
struct Frames {
  torch::Tensor values;  ///< (utterance, frame, feature), zero beyond each end
  std::vector<std::int64_t> lengths;  ///< of the utterances, in frames
};

/// Spectrograms in, letters out.
class Acoustic : public torch::nn::Module {
 public:
  /// Logarithms of the letters' probabilities, (utterance, frame, letter): frames may be fewer
  /// than they were. What is dropped is drawn from `draws`; without it nothing is.
  virtual Frames forward(const Frames& spectrograms, at::Generator* draws) = 0;
};

/// "layers=5,width=800,directions=1,front=conv2d,lookahead=20,dropout=0", with weights from
/// `seed` alone. Throws ConfigError.
std::shared_ptr<Acoustic> make_acoustic(Params& params, std::int64_t features,
                                        std::int64_t letters, std::uint64_t seed);

}  // namespace topknot::train
