// SPDX-License-Identifier: Apache-2.0
#include "engine/bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/finite.h"
#include "core/merge.h"
#include "core/plant.h"

namespace topknot::engine {

/// Passes everything on to a compressor, and keeps the time and the count.
class Bucket::TimedCompressor final : public Compressor {
 public:
  /// `traffic` keeps the spans, where it does.
  TimedCompressor(std::unique_ptr<Compressor> inner, const Transport& clock,
                  Traffic& traffic)
      : inner_(std::move(inner)), clock_(clock), traffic_(traffic) {}

  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    const double start = clock_.now();
    const bool finite = inner_->select(residual, grad, k, out);
    const double took = clock_.now() - start;
    seconds += took;
    selected += out.size();
    if (traffic_.keeps_spans) {
      traffic_.spans.push_back({Phase::select, -1, start, took});
      for (const float x : out.value) threshold = std::min(threshold, std::abs(x));
    }
    return finite;
  }

  void expect(std::size_t k, double density) override { inner_->expect(k, density); }
  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }

  double seconds = 0;
  std::uint64_t selected = 0;
  float threshold = kNone;  // the smallest magnitude selected, where details are kept
  static constexpr float kNone = std::numeric_limits<float>::infinity();

 private:
  std::unique_ptr<Compressor> inner_;
  const Transport& clock_;
  Traffic& traffic_;
};

Bucket::Bucket(const Layout& layout, const Recipe& recipe, Transport& link, int channel,
               std::shared_ptr<Memory> memory)
    : layout_(layout),
      traffic_(std::make_shared<Traffic>()),
      channel_(make_metered(link.channel(channel), traffic_)),
      compressor_(std::make_unique<TimedCompressor>(
          make_compressor(with_shared(recipe.compressor, recipe.collective), layout),
          *channel_, *traffic_)),
      collective_(make_collective(recipe.collective, *channel_, *compressor_, layout)) {
  check_pair(recipe.compressor, recipe.collective);
  memory_ = memory ? std::move(memory) : make_memory(recipe.memory, layout);
  if (!collective_->keeps_residual() && memory_->only_keeps_residual()) memory_.reset();
}

Bucket::~Bucket() {
  if (reducing_) channel_->abandon();
}

// `exchange` moves the messages of one trace.
template <typename Exchange>
StepTrace Bucket::traced(std::size_t k, Exchange exchange) {
  const double start = channel_->now();
  traffic_->spans.clear();
  const Traffic before = *traffic_;
  compressor_->seconds = 0;
  compressor_->selected = 0;
  compressor_->threshold = TimedCompressor::kNone;

  reducing_ = true;
  const Reduced reduced = exchange();
  reducing_ = false;

  StepTrace trace;
  trace.step = step_;
  trace.k_wanted = k;
  trace.k_selected = compressor_->selected;
  trace.count = reduced.count;
  trace.finite = reduced.finite;
  trace.sent_bytes = traffic_->bytes() - before.bytes();
  trace.sent_messages = traffic_->messages() - before.messages();
  trace.select_seconds = compressor_->seconds;
  trace.encode_seconds = traffic_->encode_seconds - before.encode_seconds;
  trace.wait_seconds = traffic_->wait_seconds - before.wait_seconds;
  trace.decode_seconds = traffic_->decode_seconds - before.decode_seconds;
  if (compressor_->threshold != TimedCompressor::kNone)
    trace.threshold = compressor_->threshold;
  trace.spans = std::exchange(traffic_->spans, {});
  trace.start = start;
  trace.seconds = channel_->now() - start;
  return trace;
}

StepTrace Bucket::step(std::span<float> grad, std::size_t k, std::span<float> sum,
                       double learning_rate, double density) {
  const bool whole = units() == Units::updates && k >= size() && sparse_steps_ == 0;
  settled_ = {};
  compressor_->expect(k, density);
  const StepTrace trace = traced(k, [&] {
    return whole ? step_dense(grad, sum, learning_rate)
                 : step_sparse(grad, k, sum, learning_rate);
  });
  ++step_;
  return trace;
}

Reduced Bucket::step_sparse(std::span<float> grad, std::size_t k, std::span<float> sum,
                            double learning_rate) {
  if (sum.data() != grad.data()) clear_last(sum);
  const LocalStep local{learning_rate, channel_->size()};
  if (memory_ && !TOPKNOT_PLANT(clip_after_the_sum)) memory_->before(grad, local);
  Reduced reduced = reduce(grad, k, sum);
  if (!reduced.finite) return reduced;
  // Where everything was wanted, what is missing was zero: as a dense sum it settles all.
  if (k >= size()) reduced.settled = {};
  ++sparse_steps_;
  average_and_keep(reduced, sum);
  if (memory_ && TOPKNOT_PLANT(clip_after_the_sum)) memory_->before(sum, local);
  if (memory_) memory_->after(reduced);
  settled_ = reduced.settled;
  return reduced;
}

Reduced Bucket::reduce(std::span<float> grad, std::size_t k, std::span<float> sum) {
  if (!memory_ || !collective_->keeps_residual())
    return collective_->reduce(std::span<float>(), grad, k, sum);
  if (ResidualVector* const elsewhere = memory_->elsewhere())
    return collective_->reduce(*elsewhere, grad, k, sum);
  return collective_->reduce(memory_->residual(), grad, k, sum);
}

// Everything is sent, and was so from the first step on. So the ranks' optimizers are equal,
// and the gradient is reduced first: one optimizer on the mean gradient, as in dense training.
Reduced Bucket::step_dense(std::span<float> grad, std::span<float> sum,
                           double learning_rate) {
  last_.clear();  // it writes all of sum
  last_mean_.clear();
  Reduced reduced = dense().reduce({}, grad, grad.size(), sum);
  if (!reduced.finite) return reduced;
  divide_by_ranks(reduced, sum);
  memory_->before(sum, {.learning_rate = learning_rate, .ranks = 1});
  reduced.finite = core::all_finite(sum);
  if (!reduced.finite) return reduced;
  memory_->after(reduced);
  if (collective_->keeps_residual()) last_mean_.assign(sum.begin(), sum.end());
  return reduced;
}

Collective& Bucket::dense() {
  if (!dense_)
    dense_ = make_collective(Spec::parse("dense"), *channel_, *compressor_, layout_);
  return *dense_;
}

StepTrace Bucket::average_residuals(std::span<float> mean) {
  settled_ = {};
  if (!memory_ || !collective_->keeps_residual()) {
    std::ranges::fill(mean, 0.0F);
    return traced(0, [] { return Reduced(); });
  }
  return traced(mean.size(), [&] {
    std::ranges::copy(memory_->residual(), mean.begin());
    const Reduced reduced = dense().reduce({}, mean, mean.size(), mean);
    if (reduced.finite) divide_by_ranks(reduced, mean);
    return reduced;
  });
}

void Bucket::clear_residual() {
  if (memory_) memory_->clear_residual();
}

// Divides by the number of ranks and keeps the mean in one pass: the lines of a sparse sum are
// cold.
void Bucket::average_and_keep(const Reduced& reduced, std::span<float> sum) {
  const bool keeps = memory_ && collective_->keeps_residual();
  const bool was_dense = last_mean_.size() == sum.size();
  last_.assign(reduced.index.begin(), reduced.index.end());
  if (last_.empty()) {
    divide_by_ranks(reduced, sum);
    last_mean_.assign(sum.begin(), keeps && reduced.count > 0 ? sum.end() : sum.begin());
    return;
  }
  if (was_dense) std::vector<float>().swap(last_mean_);  // as long as the bucket
  last_mean_.resize(keeps ? last_.size() : 0);
  const int ranks = TOPKNOT_PLANT(sum_for_the_mean) ? 1 : channel_->size();
  if (ranks == 1 && !keeps) return;
  core::divide(last_, static_cast<float>(ranks), sum, last_mean_);
}

void Bucket::undo() {
  if (!memory_) return;
  memory_->undo_step();
  if (!last_mean_.empty()) memory_->undo_sum(last_, last_mean_);
}

StepTrace Bucket::average(std::span<float> x) {
  settled_ = {};
  return traced(x.size(), [&] {
    const Reduced reduced = dense().reduce({}, x, x.size(), x);
    if (reduced.finite) divide_by_ranks(reduced, x);
    return reduced;
  });
}

void Bucket::save(State& state) {
  StateSaver compressor(state, layout_, "compressor");
  compressor_->visit_state(compressor);
  StateSaver collective(state, layout_, "collective");
  collective_->visit_state(collective);
  StateSaver memory(state, layout_, "memory");
  if (memory_) memory_->visit_state(memory);
  StateSaver own(state, layout_, "bucket");
  if (units() == Units::updates) own.field("sparse_steps", sparse_steps_);
}

void Bucket::load(const State& state) {
  StateLoader compressor(state, layout_, "compressor");
  compressor_->visit_state(compressor);
  StateLoader collective(state, layout_, "collective");
  collective_->visit_state(collective);
  StateLoader memory(state, layout_, "memory");
  if (memory_) memory_->visit_state(memory);
  StateLoader own(state, layout_, "bucket");
  own.field("sparse_steps", sparse_steps_);
}

// A sum that is kept from step to step is zero but for what the last step wrote.
void Bucket::clear_last(std::span<float> sum) {
  if (!TOPKNOT_PLANT(last_sum_not_cleared)) core::erase(last_, sum);
  last_.clear();
}

// Of a dense sum, or of one that has nothing.
void Bucket::divide_by_ranks(const Reduced& reduced, std::span<float> sum) const {
  const auto ranks = static_cast<float>(channel_->size());
  if (ranks == 1 || reduced.count == 0) return;
  for (float& value : sum) value /= ranks;
}

}  // namespace topknot::engine
