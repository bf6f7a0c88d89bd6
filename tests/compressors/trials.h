// SPDX-License-Identifier: Apache-2.0
//
// What an estimator of thresholds is put through: awkward vectors and sizes, a scale that
// drifts, and numbers that are none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "copy_of.h"
#include "core/merge.h"
#include "core/random.h"
#include "topknot/catalog.h"

namespace topknot::testing {

/// How many coordinates a step may give when min(k, n) is `k`.
struct Promise {
  std::size_t least;
  std::size_t most;
};
using PromiseOf = std::function<Promise(std::size_t k)>;

inline Promise half_to_twice(std::size_t k) { return {(k + 1) / 2, 2 * k}; }
inline Promise once_to_twice(std::size_t k) { return {k, 2 * k}; }
inline Promise exactly(std::size_t k) { return {k, k}; }

inline std::unique_ptr<Compressor> make(const std::string& spec, std::size_t n) {
  return make_compressor(Spec::parse(spec), Layout::flat(n));
}

inline double gaussian(core::Random& random) {
  const double radius =
      std::sqrt(-2 * std::log(1 - static_cast<double>(random.uniform())));
  return radius * std::cos(6.283185307179586 * static_cast<double>(random.uniform()));
}

enum class Kind {
  laplace,
  gaussian,
  shifted,  // a mean of three deviations
  pareto,   // no variance
  zeros,
  equal,
  signs,  // equal magnitudes
  spike,
  denormals,
  few  // nearly all are zero
};
inline constexpr Kind kAllKinds[] = {
    Kind::laplace, Kind::gaussian, Kind::shifted, Kind::pareto,    Kind::zeros,
    Kind::equal,   Kind::signs,    Kind::spike,   Kind::denormals, Kind::few};

inline std::vector<float> vector_of(Kind kind, std::size_t n, std::uint64_t seed = 1) {
  core::Random random(seed);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float sign = random.below(2) == 0 ? 1.0F : -1.0F;
    switch (kind) {
      case Kind::laplace:
        x[i] = random.laplace();
        break;
      case Kind::gaussian:
        x[i] = static_cast<float>(gaussian(random));
        break;
      case Kind::shifted:
        x[i] = static_cast<float>(gaussian(random) - 3);
        break;
      case Kind::pareto:
        x[i] = sign * static_cast<float>(std::pow(1 - random.uniform(), -0.8));
        break;
      case Kind::zeros:
        break;
      case Kind::equal:
        x[i] = 3;
        break;
      case Kind::signs:
        x[i] = 0.1F * sign;
        break;
      case Kind::spike:
        x[i] = i == n / 2 ? 1e30F : 1e-3F * random.laplace();
        break;
      case Kind::denormals:
        x[i] = 1e-42F * random.laplace();
        break;
      case Kind::few:
        x[i] = random.below(500) == 0 ? random.laplace() : 0.0F;
        break;
    }
  }
  return x;
}

/// That `out` is of `residual`, in order, as many as promised, and left nothing larger behind.
inline void expect_selection(std::span<const float> residual, std::size_t k,
                             const PromiseOf& promise, const Sparse& out) {
  const Promise allowed = promise(std::min(k, residual.size()));
  ASSERT_GE(out.size(), allowed.least);
  ASSERT_LE(out.size(), allowed.most);
  std::vector<bool> taken(residual.size());
  float smallest = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_LT(out.index[i], residual.size());
    ASSERT_TRUE(i == 0 || out.index[i - 1] < out.index[i]);
    ASSERT_EQ(out.value[i], residual[out.index[i]]);
    taken[out.index[i]] = true;
    smallest = std::min(smallest, std::abs(out.value[i]));
  }
  for (std::size_t i = 0; i < residual.size(); ++i)
    ASSERT_TRUE(taken[i] || !(std::abs(residual[i]) > smallest))
        << "larger, but left: " << i;
}

/// One step with error feedback.
inline void step(Compressor& compressor, std::vector<float>& residual,
                 const std::vector<float>& grad, std::size_t k, const PromiseOf& promise,
                 Sparse& out) {
  std::vector<float> sum = residual;
  for (std::size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
  ASSERT_TRUE(compressor.select(residual, copy_of(grad), k, out));
  ASSERT_EQ(residual, sum);
  expect_selection(residual, k, promise, out);
  core::erase(out.index, residual);
}

#ifdef TOPKNOT_SANITIZED  // where looking at every coordinate takes minutes
inline constexpr std::size_t kLong = 4099;
inline constexpr int kDriftingSteps = 100;
#else
inline constexpr std::size_t kLong = 32767;
inline constexpr int kDriftingSteps = 1000;
#endif

inline void expect_promise_on_awkward_vectors(const std::string& spec,
                                              const PromiseOf& promise) {
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{33}, kLong})
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, n / 100, n / 10, n / 2, n, n + 1})
      for (const Kind kind : kAllKinds) {
        SCOPED_TRACE(spec + ": n = " + std::to_string(n) + ", k = " + std::to_string(k) +
                     ", kind " + std::to_string(static_cast<int>(kind)));
        const auto compressor = make(spec, n);
        std::vector<float> residual(n);
        Sparse out;
        for (std::uint64_t i = 0; i < 7; ++i) {
          step(*compressor, residual, vector_of(kind, n, i), k, promise, out);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
}

/// The scale of the gradients goes up by 10^6 and down again in 1,000 steps, of which
/// kDriftingSteps are taken.
inline void expect_promise_while_the_scale_drifts(const std::string& spec,
                                                  const PromiseOf& promise) {
  const std::size_t n = 5000;
  const std::size_t k = 50;
  for (const Kind kind : {Kind::laplace, Kind::gaussian, Kind::pareto}) {
    const auto compressor = make(spec, n);
    std::vector<float> residual(n);
    Sparse out;
    for (int i = 0; i < kDriftingSteps; ++i) {
      const double way = 1 - std::abs(i - 500) / 500.0;
      std::vector<float> grad = vector_of(kind, n, static_cast<std::uint64_t>(i));
      for (float& g : grad) g *= static_cast<float>(std::pow(1e6, way));
      SCOPED_TRACE(spec + ": step " + std::to_string(i));
      step(*compressor, residual, grad, k, promise, out);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// Jumps of the scale, and of k.
inline void expect_promise_after_jumps(const std::string& spec,
                                       const PromiseOf& promise) {
  const std::size_t n = 20000;
  const auto compressor = make(spec, n);
  Sparse out;
  const float scales[] = {1, 1e6F, 1e-6F, 1e-30F, 1e30F, 1, 1};
  const std::size_t ks[] = {200, 200, 200, 2000, 20, 20, 19999};
  for (std::size_t i = 0; i < std::size(scales); ++i) {
    std::vector<float> residual = vector_of(Kind::laplace, n, i);
    for (float& v : residual) v *= scales[i];
    SCOPED_TRACE(spec + ": jump " + std::to_string(i));
    step(*compressor, residual, {}, ks[i], promise, out);
  }
}

inline void expect_clean_refusal_of_what_is_not_finite(const std::string& spec,
                                                       const PromiseOf& promise) {
  const std::size_t n = 10000;
  const auto compressor = make(spec, n);
  std::vector<float> residual(n, 2);
  Sparse out;
  std::uint64_t seed = 0;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()})
    for (const std::size_t where : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<float> grad = vector_of(Kind::laplace, n, ++seed);
      for (float& g : grad) g = std::trunc(64 * g) / 64;
      const std::vector<float> finite = grad;
      std::vector<float> before = residual;
      grad[where] = bad;
      if (bad == std::numeric_limits<float>::max()) before[where] = bad;
      residual = before;
      out.push_back(1, 1);
      ASSERT_FALSE(compressor->select(residual, copy_of(grad), 100, out));
      ASSERT_TRUE(out.empty());
      ASSERT_EQ(residual, before);
      residual[where] = 0;
      out.clear();
      step(*compressor, residual, finite, 100, promise, out);
      if (::testing::Test::HasFatalFailure()) return;
      for (float& v : residual) v = std::trunc(64 * v) / 64;
    }
}

inline void expect_promise(const std::string& spec, const PromiseOf& promise) {
  expect_promise_on_awkward_vectors(spec, promise);
  expect_promise_while_the_scale_drifts(spec, promise);
  expect_promise_after_jumps(spec, promise);
  expect_clean_refusal_of_what_is_not_finite(spec, promise);
}

/// What a compressor keeps, by name: saved from one, loaded into another.
class Fields final : public StateVisitor {
 public:
  static Fields of(Compressor& compressor) {
    Fields fields;
    compressor.visit_state(fields);
    fields.loading_ = true;
    return fields;
  }

  template <typename T>
  T get(const std::string& name) const {
    return std::get<T>(fields_.at(name));
  }

  void field(std::string_view name, float& value) override { visit(name, value); }
  void field(std::string_view name, double& value) override { visit(name, value); }
  void field(std::string_view name, std::int64_t& value) override { visit(name, value); }
  void field(std::string_view name, std::uint64_t& value) override { visit(name, value); }
  void field(std::string_view name, std::vector<std::uint64_t>& values) override {
    visit(name, values);
  }
  void coordinates(std::string_view, std::span<float>) override {}

 private:
  template <typename T>
  void visit(std::string_view name, T& value) {
    if (loading_) {
      value = get<T>(std::string(name));
    } else {
      fields_[std::string(name)] = value;
    }
  }

  std::map<std::string, std::variant<float, double, std::int64_t, std::uint64_t,
                                     std::vector<std::uint64_t>>>
      fields_;
  bool loading_ = false;
};

/// That a compressor which is saved and loaded goes on as the other one does.
inline void expect_to_go_on_after_loading(const std::string& spec) {
  const std::size_t n = 5000;
  const auto first = make(spec, n);
  std::vector<float> residual(n);
  Sparse out;
  const auto grad = [](std::uint64_t i) { return vector_of(Kind::pareto, 5000, i); };
  for (std::uint64_t i = 0; i < 37; ++i) {
    ASSERT_TRUE(first->select(residual, copy_of(grad(i)), 50, out));
    core::erase(out.index, residual);
  }
  const auto second = make(spec, n);
  Fields fields = Fields::of(*first);
  second->visit_state(fields);
  std::vector<float> twin = residual;
  Sparse twin_out;
  for (std::uint64_t i = 37; i < 80; ++i) {
    ASSERT_TRUE(first->select(residual, copy_of(grad(i)), 50, out));
    ASSERT_TRUE(second->select(twin, copy_of(grad(i)), 50, twin_out));
    ASSERT_EQ(out, twin_out) << "step " << i;
    core::erase(out.index, residual);
    core::erase(out.index, twin);
  }
}

/// That `out` is what reaches `threshold`, give or take rounding of the threshold.
inline void expect_cut_at(std::span<const float> residual, double threshold,
                          const Sparse& out) {
  std::vector<bool> taken(residual.size());
  for (const std::uint32_t i : out.index) taken[i] = true;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const double magnitude = std::abs(static_cast<double>(residual[i]));
    if (magnitude > threshold * (1 + 1e-6)) {
      ASSERT_TRUE(taken[i]) << magnitude;
    }
    if (magnitude < threshold * (1 - 1e-6)) {
      ASSERT_FALSE(taken[i]) << magnitude;
    }
  }
}

}  // namespace topknot::testing
