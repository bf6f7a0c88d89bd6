// SPDX-License-Identifier: Apache-2.0
//
// The engine: gradients into buckets, buckets through the pipeline, their mean back.
//
//   ready(p)   counts p's bucket down; the buckets that are complete and next in turn are
//              handed to the communication thread
//   reduce     on that thread: the schedule says k, Bucket::step does the rest, in place
//   finish     hands over the rest, waits, and adds up what happened
//
// What one thread writes the other reads only after the pipeline's lock has passed between
// them: a bucket's memory and trace belong to the caller until it is handed over, and again
// once the pipeline has been drained.
//
// A step of which one bucket is not finite is not applied, on any rank. Every rank learns it
// from the same bucket, so those behind it are left out by all alike, their residuals untouched.
// Those before it have gone through: what they agreed on is owed again, see
// docs/decisions/0004-a-step-is-applied-whole.md.

#include "topknot/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "engine/bucket.h"
#include "engine/buckets.h"
#include "engine/pipeline.h"
#include "engine/rules.h"
#include "topknot/error.h"
#include "topknot/schedule.h"

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

engine::Recipe recipe_of(const EngineOptions& options) {
  engine::Recipe recipe = engine::Recipe::of(options.scheme);
  if (!options.memory.empty()) recipe.memory = Spec::parse(options.memory);
  if (!options.compressor.empty()) recipe.compressor = Spec::parse(options.compressor);
  if (!options.collective.empty()) recipe.collective = Spec::parse(options.collective);
  if (!options.schedule.empty()) recipe.schedule = Spec::parse(options.schedule);
  return recipe;
}

// Where everything is sent whole anyway nothing is set apart.
std::vector<engine::BucketPlan> plan(const Layout& parameters,
                                     const EngineOptions& options,
                                     const engine::Recipe& recipe) {
  std::vector<engine::Rule> rules;
  for (const std::string& rule : options.rules)
    rules.push_back(engine::Rule::parse(rule));
  const bool dense = recipe.collective.name == "dense";
  if (dense) rules.clear();
  const double density = dense ? 1 : options.density;
  const auto groups =
      engine::sort_by_density(parameters, rules, density, options.dense_vectors);
  return engine::plan_buckets(parameters, groups, options.bucket_bytes, density != 1);
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Transport& link, const Layout& parameters, const EngineOptions& options) {
    const engine::Recipe recipe = recipe_of(options);
    const auto schedule = [&](double density) {
      return make_schedule(recipe.schedule, density, options.steps_per_epoch);
    };
    schedule(options.density);  // refuses, even if no bucket is to use it
    places_.resize(parameters.tensors.size());
    const auto plans = plan(parameters, options, recipe);
    channel_ = link.channel(options.channel);
    std::uint64_t coordinates = 0;
    for (const TensorSlot& tensor : parameters.tensors) coordinates += tensor.size();
    for (const engine::BucketPlan& plan : plans) {
      const engine::Recipe own =
          (plan.fused ? recipe.whole() : recipe)
              .clipped(options.clip, link.size(), plan.layout.size(), coordinates);
      turns_.push_back(std::make_unique<Turn>(
          plan, own, schedule(plan.density), *channel_, static_cast<int>(turns_.size())));
      layouts_.push_back(plan.layout);
      for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
        const TensorSlot& tensor = plan.layout.tensors[i];
        places_[plan.parameters[i]] = {
            turns_.back().get(),
            turns_.back()->gradients.all().subspan(tensor.offset, tensor.size())};
      }
    }
  }

  std::span<float> gradient(std::size_t parameter) { return place(parameter).gradient; }

  void begin(double learning_rate) {
    pipeline_.drain();
    if (in_step_) throw ContractError("begin() was called twice without a finish().");
    in_step_ = true;
    finite_ = true;
    learning_rate_ = learning_rate;
    next_ = 0;
    report_ = {};
    report_.step = step_++;
    report_.start = channel_->now();
    for (Place& place : places_) place.ready = false;
    for (const auto& turn : turns_) turn->begin();
  }

  void ready(std::size_t parameter) {
    Place& place = this->place(parameter);
    if (!in_step_)
      throw ContractError("ready() was called outside of a step: begin() one first.");
    if (place.ready)
      throw ContractError("ready() was called twice for parameter " +
                          std::to_string(parameter) + " in one step.");
    place.ready = true;
    if (place.turn == nullptr) return;
    if (--place.turn->missing != 0) return;
    place.turn->trace.ready = channel_->now();
    while (next_ < turns_.size() && turns_[next_]->missing == 0) submit_next();
  }

  StepReport finish() {
    if (!in_step_)
      throw ContractError("finish() was called outside of a step: begin() one first.");
    const double asked = channel_->now();
    for (const auto& turn : turns_)
      if (turn->missing != 0) turn->trace.ready = asked;
    while (next_ < turns_.size()) submit_next();
    in_step_ = false;
    pipeline_.drain();
    const double done = channel_->now();
    report_.exposed_seconds = done - asked;
    report_.finite = finite_;
    if (!finite_) undo();
    add_up();
    report_.seconds = channel_->now() - report_.start;
    return std::move(report_);
  }

  StepReport settle() {
    refuse_in_step("settle");
    pipeline_.drain();
    report_ = {};
    report_.step = step_;
    report_.start = channel_->now();
    for (const auto& turn : turns_)
      pipeline_.submit([this, turn = turn.get()] {
        turn->trace = turn->bucket.average_residuals(turn->gradients.all());
        turn->trace.step = report_.step;
        turn->trace.ready = report_.start;
      });
    pipeline_.drain();
    report_.seconds = report_.exposed_seconds = channel_->now() - report_.start;
    for (const auto& turn : turns_) report_.finite &= turn->trace.finite;
    for (const auto& turn : turns_) {
      if (report_.finite)
        turn->bucket.clear_residual();
      else
        std::ranges::fill(turn->gradients.all(), 0.0F);
    }
    add_up();
    return std::move(report_);
  }

  Units units(std::size_t parameter) {
    const Turn* const turn = place(parameter).turn;
    return turn == nullptr ? Units::gradients : turn->bucket.units();
  }

  void save(State& state) {
    refuse_in_step("save");
    for (const auto& turn : turns_) turn->bucket.save(state);
    state.values[kEngineSteps] = step_;
  }

  void load(const State& state) {
    refuse_in_step("load");
    const auto found = state.values.find(kEngineSteps);
    if (found != state.values.end()) {
      const auto* step = std::get_if<std::uint64_t>(&found->second);
      if (step == nullptr)
        throw ConfigError("The state has no count of steps where one should be.");
      step_ = *step;
    }
    for (const auto& turn : turns_) turn->bucket.load(state);
  }

  std::uint64_t steps() const noexcept { return step_; }
  const std::vector<Layout>& buckets() const noexcept { return layouts_; }
  std::uint64_t memory_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& turn : turns_) bytes += turn->bucket.memory_bytes();
    return bytes;
  }

 private:
  /// A bucket, its gradients, and how far it is in this step.
  struct Turn {
    Turn(const engine::BucketPlan& plan, const engine::Recipe& recipe,
         std::unique_ptr<Schedule> made, Transport& link, int channel)
        : gradients(plan.layout.size()),
          parameters(plan.parameters.size()),
          schedule(std::move(made)),
          bucket(plan.layout, recipe, link, channel) {}

    void begin() {
      missing = parameters;
      trace = {};
      std::ranges::fill(gradients.all(), 0.0F);
    }

    AlignedFloats gradients;
    const std::size_t parameters;
    std::unique_ptr<Schedule> schedule;
    engine::Bucket bucket;
    std::size_t missing = 0;  // parameters that are not ready
    StepTrace trace;
  };

  /// Where a parameter's gradient is; no turn for one without coordinates.
  struct Place {
    Turn* turn = nullptr;
    std::span<float> gradient;
    bool ready = false;
  };

  Place& place(std::size_t parameter) {
    if (parameter >= places_.size())
      throw ContractError("There is no parameter " + std::to_string(parameter) +
                          "; the engine was made with " + std::to_string(places_.size()) +
                          ".");
    return places_[parameter];
  }

  void refuse_in_step(const char* what) {
    if (in_step_)
      throw ContractError(std::string(what) +
                          "() was called within a step: finish() it first.");
  }

  void submit_next() {
    pipeline_.submit([this, turn = turns_[next_++].get()] { reduce(*turn); });
  }

  // On the communication thread.
  void reduce(Turn& turn) {
    const std::span<float> gradients = turn.gradients.all();
    const double density = turn.schedule->density(report_.step);
    const std::uint64_t k = coordinates_for(gradients.size(), density);
    const double ready = turn.trace.ready;
    if (finite_) {
      turn.trace = turn.bucket.step(gradients, k, gradients, learning_rate_, density);
      finite_ = turn.trace.finite;
    } else {
      turn.trace = {};
      turn.trace.k_wanted = k;
      turn.trace.finite = false;
      turn.trace.start = channel_->now();
    }
    turn.trace.step = report_.step;
    turn.trace.ready = ready;
  }

  void undo() {
    for (const auto& turn : turns_) {
      if (turn->trace.finite) turn->bucket.undo(turn->gradients.all());
      std::ranges::fill(turn->gradients.all(), 0.0F);
    }
  }

  void add_up() {
    for (const auto& turn : turns_) {
      const StepTrace& trace = turn->trace;
      report_.k_wanted += trace.k_wanted;
      report_.k_selected += trace.k_selected;
      report_.count += trace.count;
      report_.sent_bytes += trace.sent_bytes;
      report_.sent_messages += trace.sent_messages;
      report_.select_seconds += trace.select_seconds;
      report_.wait_seconds += trace.wait_seconds;
      report_.busy_seconds += trace.seconds;
      report_.buckets.push_back(trace);
    }
    if (report_.busy_seconds > 0)
      report_.overlap =
          std::clamp(1 - report_.exposed_seconds / report_.busy_seconds, 0.0, 1.0);
  }

  std::unique_ptr<Transport> channel_;  // the parent of the buckets' own
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<Layout> layouts_;
  std::vector<Place> places_;  // by parameter

  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // the turn that has not been handed over yet
  double learning_rate_ = 1;
  bool in_step_ = false;
  bool finite_ = true;  // no bucket of this step was not finite so far
  StepReport report_;

  engine::Pipeline pipeline_;  // last: its tasks use all of the above
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
std::uint64_t Engine::memory_bytes() const { return impl_->memory_bytes(); }

}  // namespace topknot
