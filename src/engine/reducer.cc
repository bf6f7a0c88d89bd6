// SPDX-License-Identifier: Apache-2.0
#include "engine/reducer.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <utility>

#include "core/plant.h"
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
    if (error_ && !TOPKNOT_PLANT(goes_on_after_an_error)) return;
    try {
      task();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

template <typename Task>
void Reducer::behind_the_queue(Task task) {
  std::promise<void> answer;
  pipeline_.submit([&] {
    try {
      task();
      answer.set_value();
    } catch (...) {
      answer.set_exception(std::current_exception());
    }
  });
  answer.get_future().get();
}

int Reducer::add_slot(Layout layout, std::shared_ptr<DeviceVector> device) {
  check_length(layout.size());
  const int number = next_number_++;
  queue([this, number, layout = std::move(layout), device = std::move(device)]() mutable {
    const std::uint64_t whole = coordinates_ == 0 ? layout.size() : coordinates_;
    auto slot = std::make_unique<Slot>(std::move(layout), options_, densities_, whole,
                                       link_, next_channel_, std::move(device));
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
      if (!TOPKNOT_PLANT(residual_forgotten)) found->second->save(carried_);
      removed_.add(found->second->totals());
      slots_.erase(found);
    }
  });
}

void Reducer::set_learning_rate(double rate) {
  queue([this, rate] { learning_rate_ = rate; });
}

void Reducer::submit(int slot, Source source, Done done, Mode mode) {
  pipeline_.submit([this, slot, source = std::move(source), done = std::move(done),
                    mode] { reduce(slot, source, done, mode); });
}

// Calls `done` in any case.
void Reducer::reduce(int number, const Source& source, const Done& done, Mode mode) {
  Result result;
  if (!error_) {
    try {
      Slot& slot = *slots_.at(number);
      result.slot = &slot;
      StepTrace trace = exchange(slot, source(), mode);
      trace.step = step_;
      finite_ &= trace.finite;
      result.finite = trace.finite;
      traces_.push_back(trace);
      in_step_.push_back(&slot);
      if (done) done(result);
      finite_ &= result.finite;
      traces_.back().finite = result.finite;
      return;
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  result.finite = false;
  result.error = error_;
  try {
    if (done) done(result);
  } catch (...) {  // nobody is left to tell
  }
}

StepTrace Reducer::exchange(Slot& slot, const Vector& vector, Mode mode) {
  if (finite_ && std::holds_alternative<OnDevice>(vector))
    return slot.step_on_device(step_, learning_rate_);
  if (std::holds_alternative<OnDevice>(vector)) return leave_out(slot);
  const std::span<float> x = std::get<std::span<float>>(vector);
  if (x.size() != slot.layout().size())
    throw ConfigError("A vector of " + std::to_string(x.size()) +
                      " values was submitted to a slot of " +
                      std::to_string(slot.layout().size()) + ".");
  if (mode == Mode::residuals) return slot.average_residuals(x);
  if (finite_) {
    return mode == Mode::whole ? slot.step_whole(x) : slot.step(x, step_, learning_rate_);
  }
  return leave_out(slot);
}

StepTrace Reducer::leave_out(Slot& slot) {
  StepTrace trace = slot.leave_out(step_);
  trace.start = link_.now();
  return trace;
}

void Reducer::end_step() {
  queue([this] {
    if (!finite_ && !TOPKNOT_PLANT(other_slots_not_undone))
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
    if (trace.threshold > 0 &&
        (report_.threshold == 0 || trace.threshold < report_.threshold))
      report_.threshold = trace.threshold;
    report_.encode_seconds += trace.encode_seconds;
    report_.wait_seconds += trace.wait_seconds;
    report_.decode_seconds += trace.decode_seconds;
    report_.busy_seconds += trace.seconds;
  }
  report_.buckets = std::exchange(traces_, {});
  if (is_step) {
    ++step_;
    nonfinite_steps_ += finite_ ? 0 : 1;
  }
  in_step_.clear();
  finite_ = true;
}

void Reducer::wait() {
  pipeline_.drain();
  if (error_) std::rethrow_exception(error_);
}

StepReport Reducer::take_report() {
  wait();
  return std::move(report_);
}

// A key is PARAMETER/PART.FIELD. A parameter's name may have a '/' in it, a field has none.
void Reducer::give_carried(Slot& slot) {
  slot.load(carried_);
  for (const TensorSlot& tensor : slot.layout().tensors) {
    const std::string prefix = tensor.name + "/";
    auto& values = carried_.values;
    for (auto key = values.lower_bound(prefix);
         key != values.end() && key->first.starts_with(prefix);) {
      if (key->first.find('/', prefix.size()) != std::string::npos) {
        ++key;
        continue;
      }
      carried_.estimates.erase(key->first);
      key = values.erase(key);
    }
  }
}

void Reducer::save(State& state) {
  behind_the_queue([&] {
    for (const auto& [key, value] : carried_.values) state.values[key] = value;
    state.estimates.insert(carried_.estimates.begin(), carried_.estimates.end());
    for (const auto& [number, slot] : slots_) slot->save(state);
  });
}

void Reducer::load(State state, std::uint64_t step) {
  behind_the_queue([&] {
    State before;
    for (const auto& [number, slot] : slots_) slot->save(before);
    State carried = std::exchange(carried_, std::move(state));
    try {
      for (const auto& [number, slot] : slots_) give_carried(*slot);
    } catch (...) {
      carried_ = std::move(carried);
      for (const auto& [number, slot] : slots_) slot->load(before);
      throw;
    }
    step_ = step;
  });
}

std::uint64_t Reducer::step() {
  std::uint64_t step = 0;
  behind_the_queue([&] { step = step_; });
  return step;
}

std::uint64_t Reducer::nonfinite_steps() {
  std::uint64_t steps = 0;
  behind_the_queue([&] { steps = nonfinite_steps_; });
  return steps;
}

Totals Reducer::removed_totals() {
  Totals totals;
  behind_the_queue([&] { totals = removed_; });
  return totals;
}

std::vector<std::pair<Layout, Totals>> Reducer::totals() {
  std::vector<std::pair<Layout, Totals>> all;
  behind_the_queue([&] {
    for (const auto& [number, slot] : slots_)
      all.emplace_back(slot->layout(), slot->totals());
  });
  return all;
}

const Slot& Reducer::slot(int number) {
  wait();
  return *slots_.at(number);
}

std::uint64_t Reducer::memory_bytes() {
  std::uint64_t bytes = 0;
  behind_the_queue([&] {
    for (const auto& [number, slot] : slots_) bytes += slot->memory_bytes();
  });
  return bytes;
}

Traffic Reducer::traffic() {
  Traffic all;
  behind_the_queue([&] {
    for (const auto& [number, slot] : slots_) slot->add_traffic(all);
  });
  return all;
}

double Reducer::residual_norm() {
  double squares = 0;
  behind_the_queue([&] {
    for (const auto& [number, slot] : slots_) squares += slot->residual_squares();
  });
  return std::sqrt(squares);
}

}  // namespace topknot::engine
