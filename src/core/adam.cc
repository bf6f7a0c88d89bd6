// SPDX-License-Identifier: Apache-2.0
#include "core/adam.h"

#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/adam.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace topknot::core {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The three lines of AdamStep on the lanes of one vector.
template <class D>
class Lanes {
 public:
  using V = hn::Vec<D>;

  Lanes(D d, const AdamStep& step)
      : beta1_(hn::Set(d, step.beta1)),
        beta2_(hn::Set(d, step.beta2)),
        rest1_(hn::Set(d, 1 - step.beta1)),
        rest2_(hn::Set(d, 1 - step.beta2)),
        epsilon_(hn::Set(d, step.epsilon)),
        rate_(hn::Set(d, step.rate)),
        root_(hn::Set(d, step.root)) {}

  V mean(V old, V g) const { return hn::Add(hn::Mul(beta1_, old), hn::Mul(rest1_, g)); }
  V square(V old, V g) const {
    return hn::Add(hn::Mul(beta2_, old), hn::Mul(hn::Mul(rest2_, g), g));
  }
  V move(V mean, V square) const {
    return hn::Div(hn::Mul(rate_, mean),
                   hn::Add(hn::Mul(hn::Sqrt(square), root_), epsilon_));
  }

 private:
  V beta1_, beta2_, rest1_, rest2_, epsilon_, rate_, root_;
};

// From `i` on, as far as whole vectors go; returns where they end.
template <class D>
std::size_t weights_from(D d, std::size_t i, std::size_t n, float* weight,
                         const float* gradient, float* mean, float* square,
                         const AdamStep& step, const AdamDecay& decay) {
  const Lanes<D> adam(d, step);
  const auto scale = hn::Set(d, decay.scale);
  const auto coupled = hn::Set(d, decay.coupled);
  const auto taken = hn::Set(d, decay.taken);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto w = hn::LoadU(d, weight + i);
    const auto g =
        hn::Add(hn::Mul(scale, hn::LoadU(d, gradient + i)), hn::Mul(coupled, w));
    const auto m = adam.mean(hn::LoadU(d, mean + i), g);
    const auto v = adam.square(hn::LoadU(d, square + i), g);
    hn::StoreU(m, d, mean + i);
    hn::StoreU(v, d, square + i);
    hn::StoreU(hn::Sub(hn::Sub(w, hn::Mul(taken, w)), adam.move(m, v)), d, weight + i);
  }
  return i;
}

template <class D>
std::size_t move_from(D d, std::size_t i, std::size_t n, float* gradient,
                      const float* mean, float* next, float* square,
                      const AdamStep& step) {
  const Lanes<D> adam(d, step);
  const auto most = hn::Set(d, std::numeric_limits<float>::max());
  const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto g = hn::LoadU(d, gradient + i);
    const auto old = hn::LoadU(d, square + i);
    const auto m = adam.mean(hn::LoadU(d, mean + i), g);
    const auto v = adam.square(old, g);
    const auto finite = hn::Le(v, most);  // not so for NaN
    hn::StoreU(m, d, next + i);
    hn::StoreU(hn::IfThenElse(finite, v, old), d, square + i);
    hn::StoreU(hn::IfThenElse(finite, adam.move(m, v), nan), d, gradient + i);
  }
  return i;
}

void adam_weights(std::size_t n, float* weight, const float* gradient, float* mean,
                  float* square, const AdamStep& step, const AdamDecay& decay) {
  const std::size_t rest = weights_from(hn::ScalableTag<float>(), 0, n, weight, gradient,
                                        mean, square, step, decay);
  weights_from(hn::CappedTag<float, 1>(), rest, n, weight, gradient, mean, square, step,
               decay);
}

void adam_move(std::size_t n, float* gradient, const float* mean, float* next,
               float* square, const AdamStep& step) {
  const std::size_t rest =
      move_from(hn::ScalableTag<float>(), 0, n, gradient, mean, next, square, step);
  move_from(hn::CappedTag<float, 1>(), rest, n, gradient, mean, next, square, step);
}

}  // namespace HWY_NAMESPACE
}  // namespace topknot::core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topknot::core {

HWY_EXPORT(adam_weights);
HWY_EXPORT(adam_move);

void adam_weights(std::span<float> weight, std::span<const float> gradient,
                  std::span<float> mean, std::span<float> square, const AdamStep& step,
                  const AdamDecay& decay) {
  HWY_DYNAMIC_DISPATCH(adam_weights)
  (weight.size(), weight.data(), gradient.data(), mean.data(), square.data(), step,
   decay);
}

void adam_move(std::span<float> gradient, std::span<const float> mean,
               std::span<float> next, std::span<float> square, const AdamStep& step) {
  HWY_DYNAMIC_DISPATCH(adam_move)
  (gradient.size(), gradient.data(), mean.data(), next.data(), square.data(), step);
}

}  // namespace topknot::core
#endif  // HWY_ONCE
