// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topknot/layout.h"
#include "topknot/memory.h"
#include "topknot/state.h"
#include "topknot/trace.h"
#include "topknot/transport.h"
#include "topknot/transports.h"

namespace topknot {

/// Where Engine::save() keeps the number of steps: the same on all ranks, unlike the rest.
inline constexpr const char* kEngineSteps = "/engine.step";

/// How an Engine cuts up and reduces. Equal on all ranks.
struct EngineOptions {
  std::string scheme = "knot";  ///< of the catalog
  // Parts instead of the scheme's, with parameters; empty: the scheme's.
  std::string memory = {};            ///< as "residual:decay=0.95"
  std::string compressor = {};        ///< as "gaussiank"
  std::string collective = {};        ///< as "oktopk:tau=64"
  double density = 0.01;              ///< in (0, 1]; 1 sends all by the same algorithm
  std::string schedule = {};          ///< of the density over time, as "constant"
  std::uint64_t steps_per_epoch = 0;  ///< for schedules that count epochs; 0: not known
  /// The longest gradient (L2 over all parameters) where the memory clips, as dgc does: each
  /// rank's own at clip / sqrt(ranks), bucket by bucket. 0 is any. With other memories clip
  /// the mean that comes out.
  double clip = 0;
  /// By parameter name, the first that matches counts: "classifier.*=dense", "embed*=0.05".
  std::vector<std::string> rules = {};
  /// A bucket is closed before it grows beyond this; a larger parameter is alone. 0: one
  /// bucket for each density.
  std::uint64_t bucket_bytes = std::uint64_t{25} << 20;
  /// Parameters of at most one dimension (biases, norms) are sent whole, fused into one
  /// bucket with those whose rule says dense.
  bool dense_vectors = true;
  /// Names of parameters that are sent whole too, but in the buckets that they would be in
  /// otherwise and not fused: what `--scheme auto` has decided.
  std::vector<std::string> whole = {};
  /// The channel of the link that the engine takes for itself: another for a second engine.
  int channel = 0;
  /// Whether traces have spans and thresholds: some 30 bytes for each message of a step, and a sweep
  /// over what was selected.
  bool details = false;
};

/// What one step did, as seen by one rank.
struct StepReport {
  std::uint64_t step = 0;  ///< counted from 0
  /// Whether the step is to be applied: the same on all ranks. If not, all gradients are 0.
  bool finite = true;
  // Sums over the buckets.
  std::uint64_t k_wanted = 0;
  std::uint64_t k_selected = 0;
  std::uint64_t count = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t sent_messages = 0;
  double select_seconds = 0;  ///< inside the compressors
  double encode_seconds = 0;  ///< making messages
  double wait_seconds = 0;    ///< inside Transport::wait
  double decode_seconds = 0;  ///< reading messages
  double busy_seconds = 0;  ///< of the communication thread, all of the above among them

  double threshold = 0;        ///< the smallest of the buckets' that have one, or 0
  double start = 0;            ///< when begin() was called, by the link's clock
  double seconds = 0;          ///< from begin() until finish() was done
  double exposed_seconds = 0;  ///< that finish() had to wait
  double overlap = 0;          ///< the share of busy_seconds that was hidden, in [0, 1]

  /// By bucket, in the order of their turns. A bucket that was left out, because one before
  /// it was not finite, is not finite either and has sent nothing.
  std::vector<StepTrace> buckets;
};

/// Data-parallel training's exchange of gradients: takes them as backward makes them and
/// gives back their mean over all ranks, agreed sparsely. One communication thread reduces
/// bucket after bucket, in one order on all ranks, while the caller goes on.
///
///     Engine engine(link, parameters, {.scheme = "knot", .density = 0.01});
///     for (...) {
///       engine.begin(rate);
///       for (parameter p = last; ...; --p) { fill(engine.gradient(p)); engine.ready(p); }
///       if (engine.finish().finite) apply();
///     }
///
/// Used by one thread at a time; `link` must outlive it and is not to be used by others
/// between begin() and finish(), but for its other channels where the transport allows it.
/// All ranks make an engine with equal arguments and take the same steps.
class Engine {
 public:
  /// `parameters`: names and shapes in the order of the forward pass, whose reverse is the
  /// expected order of readiness; offsets are ignored. Throws ConfigError for options or
  /// names that cannot be.
  Engine(Transport& link, const Layout& parameters, const EngineOptions& options = {});
  /// Waits for the bucket under way, at most until its link's deadline; the others of an
  /// unfinished step are dropped.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The memory of this parameter's gradient, for the whole life of the engine. Write into
  /// it or add to it between begin() and ready(); after finish() it has the mean.
  std::span<float> gradient(std::size_t parameter);

  /// Starts a step: sets all gradients to zero. `learning_rate` is the one that the step
  /// will be applied with. Rethrows the error that an earlier step died of, if any.
  void begin(double learning_rate = 1);
  /// This gradient is complete and not to be touched before finish(). Its bucket sets out
  /// when all its gradients are and its turn has come. Throws ContractError when called
  /// twice in a step or outside of one.
  void ready(std::size_t parameter);
  /// Ends the step: takes what was not called ready as it is, zeros where nothing was
  /// written, and waits for all buckets. Throws what the communication thread has met with, a
  /// LinkError for instance: then the engine is dead, and its residuals can still be saved.
  StepReport finish();

  /// One dense exchange that settles all residuals: gradient() then has their mean, in the
  /// units of each parameter, and the residuals are zero. Between steps only. Where the report
  /// says that it was not finite, all gradients are 0 and the residuals are as before.
  StepReport settle();
  /// What finish() and settle() leave in this parameter's gradient(): a gradient for an
  /// optimizer, or a change to be subtracted from the weights as it is. It is a change where
  /// the memory is in units of updates, but for parameters that are sent whole: of these the
  /// gradient itself is reduced.
  Units units(std::size_t parameter) const;

  /// What is kept from step to step, out of the engine and into it, by parameter name: other
  /// buckets may have been made since. Between steps only. load() throws ConfigError where
  /// a parameter has another length.
  void save(State& state);
  void load(const State& state);

  /// Steps begun so far, those of a loaded state among them.
  std::uint64_t steps() const noexcept;
  /// The parameters of each bucket, by turn, with their offsets in it.
  const std::vector<Layout>& buckets() const noexcept;
  /// What this rank has sent so far and whom it has waited for, over all buckets. Between steps
  /// only.
  Traffic traffic() const;
  /// The length (L2) of this rank's residuals, all buckets together. Between steps only.
  double residual_norm() const;
  /// What is kept for every coordinate beyond the gradients: residuals and velocities. Working
  /// buffers, which grow with k, are not counted.
  std::uint64_t memory_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topknot
