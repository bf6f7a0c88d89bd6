// SPDX-License-Identifier: Apache-2.0
//
// The engine: gradients into buckets, buckets through the reducer, their mean back.
//
//   ready(p)   counts p's bucket down; the buckets that are complete and next in order are
//              submitted to the reducer
//   finish     submits the rest, waits, and completes the report
//
// A bucket's memory belongs to the caller until it is submitted, and again once the reducer
// has been waited for.

#include "topknot/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "engine/bucket_plan.h"
#include "engine/reducer.h"
#include "topknot/error.h"

namespace topknot {
namespace {

constexpr std::size_t kAlignment = 64;

/// Floats that start at a cache line, all zero.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::size_t n)
      : data_(static_cast<float*>(
            ::operator new(n * sizeof(float), std::align_val_t(kAlignment)))),
        size_(n) {
    std::fill_n(data_.get(), n, 0.0F);
  }
  std::span<float> all() const noexcept { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* data) const {
      ::operator delete(data, std::align_val_t(kAlignment));
    }
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_;
};

std::uint64_t coordinates_of(const Layout& parameters) {
  std::uint64_t coordinates = 0;
  for (const TensorSlot& tensor : parameters.tensors) coordinates += tensor.size();
  return coordinates;
}

std::uint64_t steps_in(const State& state, std::uint64_t otherwise) {
  const auto found = state.values.find(kEngineSteps);
  if (found == state.values.end()) return otherwise;
  const auto* steps = std::get_if<std::uint64_t>(&found->second);
  if (steps == nullptr)
    throw ConfigError("The state has no count of steps where one should be.");
  return *steps;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Transport& link, const Layout& parameters, const EngineOptions& options)
      : channel_(link.channel(options.channel)),
        parameters_(parameters.tensors.size()),
        reducer_(*channel_, options, coordinates_of(parameters)) {
    const engine::Densities& densities = reducer_.densities();
    for (const engine::BucketPlan& plan :
         engine::plan_buckets(parameters, densities.group_for_buckets(parameters),
                              options.bucket_bytes, densities.sets_whole_apart()))
      add_bucket(plan);
    reducer_.wait();  // throws where a slot cannot be made
  }

  std::span<float> gradient(std::size_t parameter) { return find(parameter).gradient; }

  void begin(double learning_rate) {
    reducer_.wait();
    if (in_step_) throw ContractError("begin() was called twice without a finish().");
    in_step_ = true;
    next_ = 0;
    ++begun_;
    start_ = channel_->now();
    for (Parameter& own : parameters_) own.ready = false;
    for (const auto& bucket : buckets_) {
      bucket->missing = bucket->parameters;
      std::ranges::fill(bucket->gradients.all(), 0.0F);
    }
    reducer_.set_learning_rate(learning_rate);
  }

  void ready(std::size_t parameter) {
    Parameter& own = find(parameter);
    if (!in_step_)
      throw ContractError("ready() was called outside of a step: begin() one first.");
    if (own.ready)
      throw ContractError("ready() was called twice for parameter " +
                          std::to_string(parameter) + " in one step.");
    own.ready = true;
    if (own.bucket == nullptr) return;
    if (--own.bucket->missing != 0) return;
    own.bucket->ready_at = channel_->now();
    while (next_ < buckets_.size() && buckets_[next_]->missing == 0) submit_next();
  }

  StepReport finish() {
    if (!in_step_)
      throw ContractError("finish() was called outside of a step: begin() one first.");
    const double asked = channel_->now();
    for (const auto& bucket : buckets_)
      if (bucket->missing != 0) bucket->ready_at = asked;
    while (next_ < buckets_.size()) submit_next();
    reducer_.end_step();
    in_step_ = false;
    return complete(asked);
  }

  StepReport settle() {
    refuse_in_step("settle");
    reducer_.wait();
    start_ = channel_->now();
    for (const auto& bucket : buckets_) {
      bucket->ready_at = start_;
      submit(*bucket, engine::Reducer::Mode::residuals);
    }
    reducer_.end_settling();
    return complete(start_);
  }

  Units units(std::size_t parameter) {
    const GradientBucket* const bucket = find(parameter).bucket;
    return bucket == nullptr ? Units::gradients : bucket->units;
  }

  void save(State& state) {
    refuse_in_step("save");
    reducer_.save(state);
    state.values[kEngineSteps] = begun_;
  }

  void load(State state) {
    refuse_in_step("load");
    const std::uint64_t steps = steps_in(state, begun_);
    state.values.erase(kEngineSteps);
    reducer_.load(std::move(state), steps);
    begun_ = steps;
  }

  std::uint64_t steps() const noexcept { return begun_; }
  const std::vector<Layout>& buckets() const noexcept { return layouts_; }
  Traffic traffic() { return reducer_.traffic(); }
  double residual_norm() { return reducer_.residual_norm(); }
  std::uint64_t memory_bytes() { return reducer_.memory_bytes(); }

 private:
  /// A bucket's gradients, and how many of them are still to come in this step.
  struct GradientBucket {
    explicit GradientBucket(const engine::BucketPlan& plan)
        : gradients(plan.layout.size()), parameters(plan.parameters.size()) {}

    AlignedFloats gradients;
    const std::size_t parameters;
    int slot = 0;
    Units units = Units::gradients;
    std::size_t missing = 0;
    double ready_at = 0;
  };

  /// Where a parameter's gradient is; no bucket for one without coordinates.
  struct Parameter {
    GradientBucket* bucket = nullptr;
    std::span<float> gradient;
    bool ready = false;
  };

  void add_bucket(const engine::BucketPlan& plan) {
    buckets_.push_back(std::make_unique<GradientBucket>(plan));
    GradientBucket& bucket = *buckets_.back();
    bucket.slot = reducer_.add_slot(plan.layout);
    bucket.units = reducer_.slot(bucket.slot).units();
    layouts_.push_back(plan.layout);
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const TensorSlot& tensor = plan.layout.tensors[i];
      parameters_[plan.parameters[i]] = {
          &bucket, bucket.gradients.all().subspan(tensor.offset, tensor.size())};
    }
  }

  Parameter& find(std::size_t parameter) {
    if (parameter >= parameters_.size())
      throw ContractError("There is no parameter " + std::to_string(parameter) +
                          "; the engine was made with " +
                          std::to_string(parameters_.size()) + ".");
    return parameters_[parameter];
  }

  void refuse_in_step(const char* what) {
    if (in_step_)
      throw ContractError(std::string(what) +
                          "() was called within a step: finish() it first.");
  }

  void submit_next() { submit(*buckets_[next_++], engine::Reducer::Mode::by_scheme); }

  void submit(GradientBucket& bucket, engine::Reducer::Mode exchange) {
    reducer_.submit(
        bucket.slot, [&bucket] { return bucket.gradients.all(); }, {}, exchange);
  }

  // `asked`: when the caller began to wait.
  StepReport complete(double asked) {
    StepReport report = reducer_.take_report();
    report.start = start_;
    report.exposed_seconds = channel_->now() - asked;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      report.buckets[i].ready = buckets_[i]->ready_at;
      if (!report.finite) std::ranges::fill(buckets_[i]->gradients.all(), 0.0F);
    }
    if (report.busy_seconds > 0)
      report.overlap =
          std::clamp(1 - report.exposed_seconds / report.busy_seconds, 0.0, 1.0);
    report.seconds = channel_->now() - start_;
    return report;
  }

  std::unique_ptr<Transport> channel_;  // the parent of the slots' own
  std::vector<std::unique_ptr<GradientBucket>>
      buckets_;  // in the order of their exchange
  std::vector<Layout> layouts_;
  std::vector<Parameter> parameters_;  // by parameter

  std::uint64_t begun_ = 0;  // steps
  std::size_t next_ = 0;     // the bucket that is submitted next
  double start_ = 0;
  bool in_step_ = false;

  engine::Reducer reducer_;  // last: it uses the gradients
};

Engine::Engine(Transport& link, const Layout& parameters, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(link, parameters, options)) {}
Engine::~Engine() = default;

std::span<float> Engine::gradient(std::size_t parameter) {
  return impl_->gradient(parameter);
}
void Engine::begin(double learning_rate) { impl_->begin(learning_rate); }
void Engine::ready(std::size_t parameter) { impl_->ready(parameter); }
StepReport Engine::finish() { return impl_->finish(); }
StepReport Engine::settle() { return impl_->settle(); }
Units Engine::units(std::size_t parameter) const { return impl_->units(parameter); }
void Engine::save(State& state) { impl_->save(state); }
void Engine::load(const State& state) { impl_->load(state); }
std::uint64_t Engine::steps() const noexcept { return impl_->steps(); }
const std::vector<Layout>& Engine::buckets() const noexcept { return impl_->buckets(); }
Traffic Engine::traffic() const { return impl_->traffic(); }
double Engine::residual_norm() const { return impl_->residual_norm(); }
std::uint64_t Engine::memory_bytes() const { return impl_->memory_bytes(); }

}  // namespace topknot
