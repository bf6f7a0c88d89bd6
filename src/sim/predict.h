// SPDX-License-Identifier: Apache-2.0
//
// Whole steps of training: compute, and as much of the exchange as does not fit behind it.
//
// Gradients become ready while backward runs, bucket by bucket; backward is two thirds of the
// compute. Buckets are exchanged one after another, as the engine does. A scheme that exchanges
// updates in rounds of a few steps does so after the last of them, and nothing hides it; its time
// is shared out over the steps of the round.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "sim/exchange.h"
#include "sim/rates.h"

namespace topknot::sim {

/// What can be chosen: a scheme at a density.
struct Candidate {
  std::string scheme;
  engine::Recipe recipe;
  double density = 1;
  std::uint64_t every = 1;  ///< steps from one exchange to the next

  /// A scheme of the catalog, with an exchange on every step; dense ones have density 1.
  static Candidate of(const std::string& scheme, double density);
  /// The default of `topknot train`: knot, in rounds by a budget of bytes.
  static Candidate rounds(double budget);
  bool is_dense() const { return recipe.collective.name == "dense"; }
};
/// Names Candidate::rounds() where schemes are named.
inline constexpr const char* kRounds = "knot-rounds";

/// When `share` of the gradients are ready, in seconds from the begin of a step.
double ready_at(double compute, double share);

/// One bucket, and when its gradients are ready, in seconds from the begin of the step.
struct ReadyBucket {
  double coordinates;
  double ready;
};

struct Workload {
  double params = 0;
  double compute = 0;                     ///< seconds of forward and backward
  double bucket_bytes = 25 << 20;         ///< 0: one bucket
  std::vector<ReadyBucket> buckets = {};  ///< as recorded; else equal ones, evenly spaced

  std::vector<ReadyBucket> plan() const;
};

enum class Method { simulated, closed_form };
std::string name(Method method);

struct Prediction {
  std::string scheme;
  int ranks = 1;
  double gbps = 0;
  double density = 1;
  double step_seconds = 0;
  double exchange_seconds = 0;  ///< all buckets, a step
  double exposed_seconds = 0;   ///< what the step is longer than compute
  double bytes = 0;             ///< sent by the busiest rank, a step
  double messages = 0;          ///< the same
  double speedup_vs_dense = 1;
  double speedup_vs_dense_bf16 = 1;
  double efficiency = 1;  ///< compute / step: of weak scaling
  Method method = Method::simulated;
};

/// A network that is known, as a point of a sweep.
struct Line {
  double gbps = 0;
  Network network;
  Personality personality = {};
  Cores cores = {};
};

/// Predicts steps, and remembers exchanges that occur again.
class Predictor {
 public:
  Predictor(Workload workload, Calibration calibration, Settings settings, Method method)
      : workload_(std::move(workload)),
        calibration_(std::move(calibration)),
        settings_(settings),
        method_(method) {}

  /// Throws ConfigError where the method does not know the candidate.
  Prediction predict(const Candidate& candidate, int ranks, const Line& line);

 private:
  Prediction step(const Candidate& candidate, int ranks, const Line& line, Method method);
  ExchangeTime exchange(const Candidate& candidate, int ranks, const Line& line,
                        double coordinates, Method method);

  using Key = std::tuple<std::string, int, double, double, double, Method>;
  Workload workload_;
  Calibration calibration_;
  Settings settings_;
  Method method_;
  std::map<Key, ExchangeTime> known_;
};

/// The method for a sweep: on the virtual clock where all of its points can be simulated in
/// some seconds, else the closed form for all.
Method method_for(std::span<const int> ranks);

}  // namespace topknot::sim
