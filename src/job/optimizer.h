// SPDX-License-Identifier: Apache-2.0
//
// Optimizers on plain spans of floats. Their state is a few named vectors for each parameter,
// which checkpoints keep. All ranks compute the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "topknot/layout.h"
#include "topknot/params.h"

namespace topknot::train {

/// How one parameter is moved on one step.
struct Move {
  double lr = 0;
  double decay = 0;  ///< weight decay; 0: none
  float scale = 1;   ///< the gradient is multiplied by this first, in f32
  /// So many ranks each step on a gradient of their own, and the mean of their steps counts. The
  /// squares of one rank hold so many times the noise of the mean gradient's, so Adam multiplies
  /// its step by sqrt(ranks).
  int ranks = 1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Starts a step, in which apply() is called once for every parameter.
  void begin_step() { ++steps_; }
  virtual void apply(std::size_t parameter, std::span<float> weight,
                     std::span<const float> gradient, const Move& move) = 0;

  /// The names of the vectors that are kept for each parameter, and one of these vectors, as long
  /// as the parameter.
  std::span<const std::string_view> slots() const noexcept { return slots_; }
  std::vector<float>& slot(std::size_t which, std::size_t parameter) {
    return kept_[which][parameter];
  }
  std::uint64_t& steps() noexcept { return steps_; }
  /// A mean of squared gradients, as long as the parameter; null where none is kept.
  virtual std::vector<float>* second_moment(std::size_t /*parameter*/) { return nullptr; }
  /// Forgets all steps.
  void reset();

 protected:
  Optimizer(std::vector<std::string_view> slots, std::span<const std::size_t> sizes);

  std::uint64_t steps_ = 0;

 private:
  const std::vector<std::string_view> slots_;
  std::vector<std::vector<std::vector<float>>> kept_;  // by slot and parameter
};

/// An optimizer for parameters of these sizes, as "sgd:momentum=0.9,nesterov=1,momentum_of=all",
/// "adam:beta1=0.9,beta2=0.999,eps=1e-8,correct=1" or "adamw:...". Throws ConfigError for an
/// unknown name or parameter.
std::unique_ptr<Optimizer> make_optimizer(const Spec& spec,
                                          std::span<const std::size_t> sizes);

/// The optimizers' names.
std::vector<std::string> optimizer_names();
/// What one does in a line, and the parameters that it reads. Throws ConfigError for an unknown
/// name.
std::string_view optimizer_summary(std::string_view name);
std::vector<Params::Declaration> optimizer_parameters(std::string_view name);

/// The weight decay of a parameter: 0 for a vector where the job exempts vectors.
double weight_decay_of(const Job& job, const TensorSlot& parameter);

/// The factor that shortens a gradient of squared length `squares` to `longest`; 1 where it is
/// not longer, or where `longest` is 0, for any length.
double clip_factor(double squares, double longest);

}  // namespace topknot::train
