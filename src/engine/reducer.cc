// SPDX-License-Identifier: Apache-2.0
#include "engine/reducer.h"

#include <algorithm>
#include <utility>

#include "topknot/error.h"

namespace topknot::engine {

Reducer::Reducer(Transport& link, const EngineOptions& options, std::uint64_t coordinates)
    : link_(link), options_(options), densities_(options), coordinates_(coordinates) {
  check(options);
}

// A task that threw would end the tasks behind it, for which callers may wait.
template <typename Task>
void Reducer::queue(Task task) {
  pipeline_.submit([this, task = std::move(task)]() mutable {
    if (error_) return;
    try {
      task();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

int Reducer::add_slot(Layout layout) {
  check_length(layout.size());
  const int number = next_number_++;
  queue([this, number, layout = std::move(layout)]() mutable {
    const std::uint64_t whole = coordinates_ == 0 ? layout.size() : coordinates_;
    auto slot =
        std::make_unique<Slot>(std::move(layout), options_, whole, link_, next_channel_);
    give_carried(*slot);
    slots_.emplace(number, std::move(slot));
  });
  return number;
}

void Reducer::remove_slots(std::vector<int> slots) {
  queue([this, slots = std::move(slots)] {
    for (const int number : slots) {
      const auto found = slots_.find(number);
      if (found == slots_.end()) continue;
      if (std::ranges::count(in_step_, found->second.get()) > 0)
        throw ContractError("A slot was removed in the middle of its step.");
      found->second->save(carried_);
      removed_.add(found->second->totals());
      slots_.erase(found);
    }
  });
}

void Reducer::set_learning_rate(double rate) {
  queue([this, rate] { learning_rate_ = rate; });
}

void Reducer::submit(int slot, Source source, Done done, Exchange exchange) {
  pipeline_.submit([this, slot, source = std::move(source), done = std::move(done),
                    exchange] { reduce(slot, source, done, exchange); });
}

// Calls `done` in any case.
void Reducer::reduce(int number, const Source& source, const Done& done,
                     Exchange exchange) {
  Result result;
  if (!error_) {
    try {
      Slot& slot = *slots_.at(number);
      result.slot = &slot;
      StepTrace trace = this->exchange(slot, source(), exchange);
      trace.step = step_;
      finite_ &= trace.finite;
      result.finite = trace.finite;
      traces_.push_back(trace);
      in_step_.push_back(&slot);
      if (done) done(result);
      return;
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  result.finite = false;
  result.error = error_;
  if (done) done(result);
}

StepTrace Reducer::exchange(Slot& slot, std::span<float> x, Exchange exchange) {
  if (x.size() != slot.layout().size())
    throw ConfigError("A vector of " + std::to_string(x.size()) +
                      " values was submitted to a slot of " +
                      std::to_string(slot.layout().size()) + ".");
  if (exchange == Exchange::residuals) return slot.average_residuals(x);
  if (finite_) {
    return exchange == Exchange::whole ? slot.step_whole(x)
                                       : slot.step(x, step_, learning_rate_);
  }
  StepTrace trace = slot.leave_out(step_);
  trace.start = link_.now();
  return trace;
}

void Reducer::end_step() {
  queue([this] {
    if (!finite_)
      for (Slot* const slot : in_step_) slot->undo();
    end(true);
  });
}

void Reducer::end_settling() {
  queue([this] {
    if (finite_)
      for (Slot* const slot : in_step_) slot->clear_residuals();
    end(false);
  });
}

void Reducer::end(bool is_step) {
  report_ = {};
  report_.step = step_;
  report_.finite = finite_;
  for (const StepTrace& trace : traces_) {
    report_.k_wanted += trace.k_wanted;
    report_.k_selected += trace.k_selected;
    report_.count += trace.count;
    report_.sent_bytes += trace.sent_bytes;
    report_.sent_messages += trace.sent_messages;
    report_.select_seconds += trace.select_seconds;
    report_.wait_seconds += trace.wait_seconds;
    report_.busy_seconds += trace.seconds;
  }
  report_.buckets = std::exchange(traces_, {});
  in_step_.clear();
  finite_ = true;
  if (is_step) ++step_;
}

void Reducer::wait() {
  pipeline_.drain();
  if (error_) std::rethrow_exception(error_);
}

StepReport Reducer::take_report() {
  wait();
  return std::move(report_);
}

// A key is PARAMETER/PART.FIELD, and '0' is the character behind '/'.
void Reducer::give_carried(Slot& slot) {
  slot.load(carried_);
  auto& values = carried_.values;
  for (const TensorSlot& tensor : slot.layout().tensors)
    values.erase(values.lower_bound(tensor.name + "/"),
                 values.lower_bound(tensor.name + "0"));
}

void Reducer::save(State& state) {
  pipeline_.drain();
  for (const auto& [key, value] : carried_.values) state.values[key] = value;
  state.estimates.insert(carried_.estimates.begin(), carried_.estimates.end());
  for (const auto& [number, slot] : slots_) slot->save(state);
}

void Reducer::load(State state, std::uint64_t step) {
  pipeline_.drain();
  carried_ = std::move(state);
  step_ = step;
  for (const auto& [number, slot] : slots_) give_carried(*slot);
}

std::uint64_t Reducer::step() {
  pipeline_.drain();
  return step_;
}

Totals Reducer::removed_totals() {
  pipeline_.drain();
  return removed_;
}

std::vector<std::pair<Layout, Totals>> Reducer::totals() {
  pipeline_.drain();
  std::vector<std::pair<Layout, Totals>> all;
  for (const auto& [number, slot] : slots_)
    all.emplace_back(slot->layout(), slot->totals());
  return all;
}

const Slot& Reducer::slot(int number) {
  wait();
  return *slots_.at(number);
}

std::uint64_t Reducer::memory_bytes() {
  pipeline_.drain();
  std::uint64_t bytes = 0;
  for (const auto& [number, slot] : slots_) bytes += slot->memory_bytes();
  return bytes;
}

}  // namespace topknot::engine
