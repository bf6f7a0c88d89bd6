// SPDX-License-Identifier: Apache-2.0
#include "job/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/adam.h"
#include "core/names.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

/// m = momentum * m + g; the weight moves by m, or with Nesterov by g + momentum * m. With
/// momentum_of=decay the gradient already includes momentum, from the memory dgc: then g is the
/// weight decay alone, and the gradient is added to the move without momentum.
class Sgd final : public Optimizer {
 public:
  Sgd(Params& params, std::span<const std::size_t> sizes)
      : Sgd(static_cast<float>(
                params.number("momentum", 0, 0, 1, "share of the last move")),
            params.flag("nesterov", false, "look one move ahead"),
            params.choice("momentum_of", {"all", "decay"}, "what has momentum") ==
                "decay",
            sizes) {}

  void apply(std::size_t parameter, std::span<float> weight,
             std::span<const float> gradient, const Move& move) override {
    const auto lr = static_cast<float>(move.lr);
    const auto decay = static_cast<float>(move.decay);
    const float scale = move.scale;
    if (momentum_ == 0) {
      for (std::size_t i = 0; i < weight.size(); ++i)
        weight[i] -= lr * (scale * gradient[i] + decay * weight[i]);
      return;
    }
    float* const last = slot(0, parameter).data();
    if (of_decay_) {
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const float g = decay * weight[i];
        last[i] = momentum_ * last[i] + g;
        const float moved = nesterov_ ? g + momentum_ * last[i] : last[i];
        weight[i] -= lr * (scale * gradient[i] + moved);
      }
      return;
    }
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const float g = scale * gradient[i] + decay * weight[i];
      last[i] = momentum_ * last[i] + g;
      weight[i] -= lr * (nesterov_ ? g + momentum_ * last[i] : last[i]);
    }
  }

 private:
  Sgd(float momentum, bool nesterov, bool of_decay, std::span<const std::size_t> sizes)
      : Optimizer(momentum == 0 ? std::vector<std::string_view>{}
                                : std::vector<std::string_view>{"momentum"},
                  sizes),
        momentum_(momentum),
        nesterov_(nesterov),
        of_decay_(of_decay) {}

  const float momentum_;
  const bool nesterov_;
  const bool of_decay_;
};

/// Kingma and Ba, ICLR 2015. `decoupled` subtracts the decay from the weight instead of adding
/// it to the gradient (Loshchilov and Hutter, ICLR 2019). correct=0 does not correct the bias of
/// the first steps, as in BERT's training.
class Adam final : public Optimizer {
 public:
  Adam(Params& params, std::span<const std::size_t> sizes, bool decoupled)
      : Optimizer({"mean", "square"}, sizes),
        beta1_(params.number("beta1", 0.9, 0, 1, "memory of the mean")),
        beta2_(params.number("beta2", 0.999, 0, 1, "memory of the squares")),
        epsilon_(
            static_cast<float>(params.number("eps", 1e-8, 0, 1, "added to the root"))),
        correct_(params.flag("correct", true, "correct the bias of the first steps")),
        decoupled_(decoupled) {}

  void apply(std::size_t parameter, std::span<float> weight,
             std::span<const float> gradient, const Move& move) override {
    const auto t = static_cast<double>(steps_);
    const double scale1 = correct_ ? 1 - std::pow(beta1_, t) : 1;
    const double scale2 = correct_ ? 1 - std::pow(beta2_, t) : 1;
    const double gain = std::sqrt(static_cast<double>(move.ranks));
    core::adam_weights(
        weight, gradient, slot(0, parameter), slot(1, parameter),
        {.beta1 = static_cast<float>(beta1_),
         .beta2 = static_cast<float>(beta2_),
         .epsilon = epsilon_,
         .rate = static_cast<float>(gain * move.lr / scale1),
         .root = static_cast<float>(1 / std::sqrt(scale2))},
        {.scale = move.scale,
         .coupled = decoupled_ ? 0 : static_cast<float>(move.decay),
         .taken = decoupled_ ? static_cast<float>(move.lr * move.decay) : 0});
  }

  std::vector<float>* second_moment(std::size_t parameter) override {
    return &slot(1, parameter);
  }

 private:
  const double beta1_;
  const double beta2_;
  const float epsilon_;
  const bool correct_;
  const bool decoupled_;
};

using Sizes = std::span<const std::size_t>;

std::unique_ptr<Optimizer> sgd(Params& params, Sizes sizes) {
  return std::make_unique<Sgd>(params, sizes);
}
std::unique_ptr<Optimizer> adam(Params& params, Sizes sizes) {
  return std::make_unique<Adam>(params, sizes, /*decoupled=*/false);
}
std::unique_ptr<Optimizer> adamw(Params& params, Sizes sizes) {
  return std::make_unique<Adam>(params, sizes, /*decoupled=*/true);
}

struct Entry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Optimizer> (*make)(Params& params, Sizes sizes);
};
constexpr Entry kOptimizers[] = {
    {"sgd", "stochastic gradient descent, with momentum where asked", sgd},
    {"adam", "steps by mean and root of squares; decay joins the gradient", adam},
    {"adamw", "adam, whose decay is taken off the weights", adamw}};

const Entry& find(std::string_view name) {
  const auto* const found = std::ranges::find(kOptimizers, name, &Entry::name);
  if (found == std::end(kOptimizers))
    throw ConfigError("There is no optimizer named " + std::string(name) +
                      core::suggestion(name, optimizer_names()) + ".");
  return *found;
}

}  // namespace

Optimizer::Optimizer(std::vector<std::string_view> slots,
                     std::span<const std::size_t> sizes)
    : slots_(std::move(slots)), kept_(slots_.size()) {
  for (auto& slot : kept_)
    for (const std::size_t size : sizes) slot.emplace_back(size);
}

void Optimizer::reset() {
  steps_ = 0;
  for (auto& slot : kept_)
    for (std::vector<float>& values : slot) std::ranges::fill(values, 0.0F);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

std::string_view optimizer_summary(std::string_view name) { return find(name).summary; }

std::vector<Params::Declaration> optimizer_parameters(std::string_view name) {
  Params params;
  find(name).make(params, {});
  return params.declared();
}

std::unique_ptr<Optimizer> make_optimizer(const Spec& spec,
                                          std::span<const std::size_t> sizes) {
  Params params = spec.params;
  std::unique_ptr<Optimizer> made = find(spec.name).make(params, sizes);
  params.refuse_unknown(spec.name);
  return made;
}

double weight_decay_of(const Job& job, const TensorSlot& parameter) {
  return job.decay_vectors || parameter.shape.size() > 1 ? job.weight_decay : 0;
}

double clip_factor(double squares, double longest) {
  const double length = std::sqrt(squares);
  return longest > 0 && length > longest ? longest / length : 1;
}

}  // namespace topknot::train
