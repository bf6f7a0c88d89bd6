// SPDX-License-Identifier: Apache-2.0
//
// Optimizers on plain spans: what they keep is a few vectors by parameter, which a
// checkpoint can name, and every rank rounds alike.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "topknot/layout.h"
#include "topknot/params.h"

namespace topknot::train {

/// How one parameter is moved on one step.
struct Move {
  double lr = 0;
  double decay = 0;  ///< weight decay; 0 for what does not decay
  float scale = 1;   ///< the gradient is taken times this, rounded, before all else
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Starts a step; then apply() for every parameter, once.
  void begin_step() { ++steps_; }
  virtual void apply(std::size_t parameter, std::span<float> weight,
                     std::span<const float> gradient, const Move& move) = 0;

  /// What is kept for each parameter: names, and vectors as long as the parameter.
  std::span<const std::string_view> slots() const noexcept { return slots_; }
  std::vector<float>& slot(std::size_t which, std::size_t parameter) {
    return kept_[which][parameter];
  }
  std::uint64_t& steps() noexcept { return steps_; }
  /// As if no step had been taken.
  void reset();

 protected:
  Optimizer(std::vector<std::string_view> slots, std::span<const std::size_t> sizes);

  std::uint64_t steps_ = 0;

 private:
  const std::vector<std::string_view> slots_;
  std::vector<std::vector<std::vector<float>>> kept_;  // by slot and parameter
};

/// "sgd:momentum=0.9,nesterov=1,of=all", "adam:beta1=0.9,beta2=0.999,eps=1e-8,correct=1" or "adamw:..."
/// for parameters of these sizes. Throws ConfigError for anything else.
std::unique_ptr<Optimizer> make_optimizer(const Spec& spec,
                                          std::span<const std::size_t> sizes);

/// What a parameter decays by: nothing where it is a vector and the job lets these be.
double weight_decay_of(const Job& job, const TensorSlot& parameter);

/// The factor that makes a gradient of squared length `squares` no longer than `longest`; 1
/// where it is not, or where `longest` is 0.
double clip_factor(double squares, double longest);

}  // namespace topknot::train
