// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "compressors/trials.h"
#include "core/quantile.h"

namespace topknot::testing {
namespace {

std::vector<double> magnitudes(std::span<const float> x) {
  std::vector<double> all;
  for (const float v : x) all.push_back(std::abs(static_cast<double>(v)));
  return all;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double variance_of(const std::vector<double>& x) {
  const double mean = mean_of(x);
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return squares / static_cast<double>(x.size());
}

double exponential(const std::vector<double>& x, double q) {
  return -mean_of(x) * std::log(q);
}

double generalised_pareto(const std::vector<double>& x, double q) {
  const double mean = mean_of(x);
  const double ratio = mean * mean / variance_of(x);
  const double scale = 0.5 * mean * (ratio + 1);
  const double shape = 0.5 * (ratio - 1);
  return scale * (1 - std::pow(q, shape)) / shape;
}

double gamma(const std::vector<double>& x, double q) {
  double logs = 0;
  for (const double v : x) logs += std::log(v);
  const double mean = mean_of(x);
  const double s = std::log(mean) - logs / static_cast<double>(x.size());
  const double shape = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  return mean / shape * core::gamma_quantile(shape, q);
}

/// The threshold by the formulas of the paper, one stage after the other.
double threshold_by_hand(std::span<const float> residual, const std::string& dist,
                         int stages, double density) {
  std::vector<double> all = magnitudes(residual);
  const double first = stages == 1 || density >= 0.25 ? density : 0.25;
  double threshold = dist == "exp"     ? exponential(all, first)
                     : dist == "gamma" ? gamma(all, first)
                                       : generalised_pareto(all, first);
  if (first == density) return threshold;
  const double q = std::pow(density / 0.25, 1.0 / (stages - 1));
  for (int stage = 2; stage <= stages; ++stage) {
    std::erase_if(all, [&](double v) { return v < threshold; });
    const double smallest = *std::min_element(all.begin(), all.end());
    std::vector<double> beyond = all;
    for (double& v : beyond) v -= smallest;
    threshold = smallest +
                (dist == "exp" ? exponential(beyond, q) : generalised_pareto(beyond, q));
  }
  return threshold;
}

std::string spec_of(const std::string& dist, int stages) {
  return "sidco:dist=" + dist + ",stages=" + std::to_string(stages);
}

const std::string kDists[] = {"exp", "gamma", "gpareto"};

TEST(Sidco, KeepsItsPromise) {
  for (const std::string& dist : kDists)
    expect_promise("sidco:dist=" + dist, half_to_twice);
}

TEST(Sidco, KeepsItsPromiseWhateverTheNumberOfStages) {
  for (const std::string& dist : kDists)
    for (const int stages : {1, 2, 7}) {
      expect_promise_on_awkward_vectors(spec_of(dist, stages), half_to_twice);
      expect_promise_after_jumps(spec_of(dist, stages), half_to_twice);
    }
}

TEST(Sidco, CutsWhereTheFormulasSay) {
  const std::size_t n = 40000;
  int fitted = 0;
  for (const std::string& dist : kDists)
    for (const int stages : {1, 2, 3, 5})
      for (const Kind kind : {Kind::laplace, Kind::gaussian, Kind::shifted})
        for (const std::size_t k : {40, 400, 4000, 16000}) {
          SCOPED_TRACE(spec_of(dist, stages) + " k = " + std::to_string(k));
          const auto compressor = make(spec_of(dist, stages), n);
          Sparse out;
          for (std::uint64_t i = 0; i < 3; ++i) {
            std::vector<float> residual = vector_of(kind, n, i);
            const double density = static_cast<double>(k) / static_cast<double>(n);
            const double threshold = threshold_by_hand(residual, dist, stages, density);
            const auto count = static_cast<std::size_t>(
                std::count_if(residual.begin(), residual.end(),
                              [&](float v) { return std::abs(v) >= threshold; }));
            ASSERT_TRUE(compressor->select(residual, {}, k, out));
            if (2 * count >= k && count <= 2 * k) {
              expect_cut_at(residual, threshold, out);
              ++fitted;
            } else {
              ASSERT_EQ(out.size(), k);
            }
          }
        }
  EXPECT_GT(fitted, 150) << "of " << 3 * 4 * 3 * 4 * 3;
}

TEST(Sidco, FitsWhatItAssumes) {
  const std::size_t n = 200000;
  const std::size_t k = 2000;
  for (const std::string& dist : kDists)
    for (const int stages : {1, 2, 3}) {
      std::vector<float> residual = vector_of(Kind::laplace, n);
      Sparse out;
      ASSERT_TRUE(make(spec_of(dist, stages), n)->select(residual, {}, k, out));
      EXPECT_NEAR(static_cast<double>(out.size()) / static_cast<double>(k), 1, 0.2)
          << spec_of(dist, stages);
    }
}

TEST(Sidco, TakesAParetoOfShapeZeroForAnExponential) {
  // Mean and deviation are both 1, which makes the published formula 0/0.
  std::vector<float> residual(1000);
  for (std::size_t i = 0; i < 1000; i += 2) residual[i] = 2;
  Sparse out;
  ASSERT_TRUE(make("sidco:dist=gpareto,stages=1", 1000)->select(residual, {}, 350, out));
  expect_selection(residual, 350, half_to_twice, out);
  EXPECT_EQ(out.size(), 500U) << "all that reach the threshold -ln 0.35";
}

TEST(Sidco, CutsAtATailOfEquals) {
  // Behind the first threshold all are equal: no deviation, and 0/0 as published.
  std::vector<float> residual(1000, 0.1F);
  for (std::size_t i = 0; i < 900; i += 3) residual[i] = -3;
  for (const char* dist : {"exp", "gpareto"}) {
    Sparse out;
    ASSERT_TRUE(make(spec_of(dist, 2), 1000)->select(residual, {}, 200, out));
    EXPECT_EQ(out.size(), 300U) << dist;
  }
}

TEST(Sidco, CutsAtTheMeanOfEqualsThatAreNotZero) {
  std::vector<float> residual(1000);
  for (std::size_t i = 0; i < 900; i += 3) residual[i] = -1;
  Sparse out;
  ASSERT_TRUE(make("sidco:dist=gamma", 1000)->select(residual, {}, 250, out));
  EXPECT_EQ(out.size(), 300U);
}

TEST(Sidco, LivesWithAnEmptyTail) {
  // -ln(0.25) is more than 1: nothing reaches the first threshold.
  std::vector<float> residual = vector_of(Kind::signs, 1000);
  Sparse out;
  ASSERT_TRUE(make("sidco:stages=3", 1000)->select(residual, {}, 10, out));
  EXPECT_EQ(out.size(), 10U);
}

TEST(Sidco, FitsAGammaToWhatIsNotZero) {
  std::vector<float> residual = vector_of(Kind::laplace, 100000);
  std::vector<float> others;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    if (i % 4 != 0) residual[i] = 0;
    if (i % 4 == 0) others.push_back(residual[i]);
  }
  Sparse out;
  ASSERT_TRUE(
      make(spec_of("gamma", 1), residual.size())->select(residual, {}, 1000, out));
  expect_cut_at(residual, gamma(magnitudes(others), 0.04), out);
  EXPECT_NEAR(static_cast<double>(out.size()), 1000, 150);
}

std::int64_t stages_of(Compressor& compressor) {
  return Fields::of(compressor).get<std::int64_t>("stages");
}

TEST(Sidco, AddsAStageAfterFiveStepsWithTooFew) {
  // Magnitudes that end early: one exponential says a threshold that nothing reaches.
  const std::size_t n = 10000;
  const auto compressor = make("sidco", n);
  Sparse out;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(stages_of(*compressor), 1) << "step " << i;
    core::Random random(static_cast<std::uint64_t>(i));
    std::vector<float> residual(n);
    for (float& v : residual) v = random.uniform();
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
  }
  EXPECT_EQ(stages_of(*compressor), 2);
}

std::vector<std::int64_t> stages_over_windows(Kind kind, std::size_t k, int windows) {
  const auto compressor = make("sidco", 10000);
  std::vector<std::int64_t> stages;
  Sparse out;
  for (int i = 0; i < 5 * windows; ++i) {
    std::vector<float> residual = vector_of(kind, 10000, static_cast<std::uint64_t>(i));
    EXPECT_TRUE(compressor->select(residual, {}, k, out));
    if (i % 5 == 4) stages.push_back(stages_of(*compressor));
  }
  return stages;
}

TEST(Sidco, TurnsRoundWhenAStageMoreMadeItWorse) {
  // At this density a heavy tail gives too few with one stage, and fewer with two.
  EXPECT_EQ(stages_over_windows(Kind::pareto, 1000, 2),
            (std::vector<std::int64_t>{2, 1}));
}

TEST(Sidco, TriesTwoStagesWhenOneTakesTooMany) {
  // As published it would want none.
  EXPECT_EQ(stages_over_windows(Kind::pareto, 100, 1), (std::vector<std::int64_t>{2}));
}

TEST(Sidco, HasAsManyStagesAsHelpButNoMoreThanHalvings) {
  const std::size_t n = 10000;
  const auto compressor = make("sidco", n);
  Sparse out;
  for (int i = 0; i < 300; ++i) {
    core::Random random(static_cast<std::uint64_t>(i));
    std::vector<float> residual(n);
    for (float& v : residual) v = 1 + 1e-3F * random.uniform();
    ASSERT_TRUE(compressor->select(residual, {}, 100, out));
    ASSERT_GE(stages_of(*compressor), 1);
    ASSERT_LE(stages_of(*compressor), 7);
  }
}

TEST(Sidco, ComesNearToKByAdapting) {
  const std::size_t n = 50000;
  const std::size_t k = 500;
  for (const std::string& dist : kDists)
    for (const Kind kind : {Kind::laplace, Kind::gaussian}) {
      const auto compressor = make("sidco:dist=" + dist, n);
      std::vector<float> residual(n);
      Sparse out;
      double sent = 0;
      for (std::uint64_t i = 0; i < 150; ++i) {
        step(*compressor, residual, vector_of(kind, n, i), k, half_to_twice, out);
        if (i >= 100) sent += static_cast<double>(out.size()) / 50;
      }
      EXPECT_NEAR(sent / static_cast<double>(k), 1, 0.25)
          << dist << " " << static_cast<int>(kind);
    }
}

TEST(Sidco, KeepsItsNumberOfStagesToItself) {
  const std::size_t n = 10000;
  const auto disturbed = make("sidco", n);
  const auto other = make("sidco", n);
  Sparse out;
  for (std::uint64_t i = 0; i < 10; ++i) {
    std::vector<float> residual = vector_of(Kind::equal, n, i);
    ASSERT_TRUE(disturbed->select(residual, {}, 100, out));
  }
  EXPECT_GT(stages_of(*disturbed), 1);
  EXPECT_EQ(stages_of(*other), 1);
}

TEST(Sidco, GoesOnAfterLoading) { expect_to_go_on_after_loading("sidco"); }

}  // namespace
}  // namespace topknot::testing
