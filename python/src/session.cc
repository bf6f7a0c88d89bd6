// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <future>
#include <utility>

#include "topknot/error.h"

namespace topknot::python {
namespace {

bool reduces_in_place(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

/// A copy in host memory under way from a device: the copy, and how to know it is done.
struct Staged {
  at::Tensor host;
  std::shared_ptr<c10::Event> arrived;
};

// On a device the copy is queued behind the gradient's own kernels and goes to pinned
// memory, so that the thread that runs backward does not wait for it.
Staged stage(const at::Tensor& x) {
  if (x.is_cpu()) return {};
  const c10::impl::VirtualGuardImpl guard(x.device().type());
  Staged staged;
  staged.host =
      at::empty({x.numel()}, at::TensorOptions(x.scalar_type()).pinned_memory(true));
  staged.host.copy_(x, /*non_blocking=*/true);
  staged.arrived = std::make_shared<c10::Event>(x.device().type());
  staged.arrived->record(guard.getStream(x.device()));
  return staged;
}

}  // namespace

Session::Session(Config config, std::unique_ptr<Transport> link)
    : config_(std::move(config)),
      rank_(link->rank()),
      size_(link->size()),
      link_(std::move(link)),
      thread_([this] { work(); }) {}

Session::~Session() { close(); }

void Session::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    if (!failure_)
      failure_ = std::make_exception_ptr(
          ConfigError("This has been closed: attach once more, or make a new one."));
  }
  changed_.notify_all();
  thread_.join();
  plans_.clear();
  link_.reset();
}

// What is queued when close() is called is still done.
void Session::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    task();
    const std::scoped_lock lock(mutex_);
    busy_ = false;
  }
}

bool Session::idle() {
  const std::scoped_lock lock(mutex_);
  return queue_.empty() && !busy_;
}

void Session::push(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (closing_) std::rethrow_exception(failure_);
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Session::ask(const std::function<void()>& task) {
  std::promise<void> answer;
  push([&] {
    try {
      task();
      answer.set_value();
    } catch (...) {
      answer.set_exception(std::current_exception());
    }
  });
  answer.get_future().get();
}

int Session::add_plan(Layout layout) {
  check_length(layout.size());
  int id = 0;
  {
    const std::scoped_lock lock(mutex_);
    id = next_plan_++;
  }
  push([this, id, layout = std::move(layout)]() mutable {
    plans_[id].layout = std::move(layout);
  });
  return id;
}

void Session::retire_plans() {
  push([this] {
    for (auto& [id, entry] : plans_) {
      if (!entry.plan) continue;
      entry.plan->save(carried_);
      retired_.add(entry.plan->totals());
    }
    done_in_step_.clear();
    plans_.clear();
  });
}

Future Session::reduce(int plan, at::Tensor x, const Exchange& exchange) {
  std::vector<c10::Device> devices;
  if (!x.is_cpu()) devices.push_back(x.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), devices);
  Staged staged = stage(x);
  push([this, plan, x = std::move(x), staged = std::move(staged), exchange,
        future]() mutable {
    try {
      {
        const std::scoped_lock lock(mutex_);
        if (failure_ && !closing_) std::rethrow_exception(failure_);
      }
      if (staged.arrived) staged.arrived->synchronize();
      reduce_now(plan, x, staged.host, exchange);
      future->markCompleted(c10::IValue(std::move(x)));
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      future->setError(std::current_exception());
    }
  });
  return future;
}

void Session::reduce_now(int plan, at::Tensor x, const at::Tensor& staged,
                         const Exchange& exchange) {
  const c10::NoGradGuard no_grad;
  Plan& own = ready(plan);
  if (static_cast<std::uint64_t>(x.numel()) != own.layout().size())
    throw ConfigError("A gradient of " + std::to_string(x.numel()) +
                      " values was handed in where " +
                      std::to_string(own.layout().size()) + " were promised.");
  at::Tensor f32 = x;
  if (!reduces_in_place(x))
    f32 = (staged.defined() ? staged : x).reshape({-1}).to(at::kFloat).contiguous();
  const std::span<float> values(f32.data_ptr<float>(),
                                static_cast<std::size_t>(f32.numel()));
  const bool finite = run(own, values, exchange);
  if (!reduces_in_place(x)) x.copy_(f32.reshape(x.sizes()));
  if (exchange.kind == Exchange::Kind::settle) return;
  step_is_finite_ &= finite;
  done_in_step_.push_back(&own);
  if (exchange.last) end_step();
}

bool Session::run(Plan& plan, std::span<float> x, const Exchange& exchange) {
  if (exchange.kind == Exchange::Kind::settle) return plan.settle(x);
  const bool finite = plan.reduce(x, step_, exchange.kind == Exchange::Kind::whole);
  if (exchange.settled) *exchange.settled = plan.settled();
  return finite;
}

void Session::end_step() {
  if (!step_is_finite_ && config_.rollback)
    for (Plan* plan : done_in_step_) plan->roll_back();
  done_in_step_.clear();
  step_is_finite_ = true;
  ++step_;
}

Plan& Session::ready(int plan) {
  Entry& entry = plans_.at(plan);
  if (!entry.plan) {
    entry.plan = std::make_unique<Plan>(entry.layout, config_, *link_, next_channel_);
    hand_over_carried(*entry.plan);
  }
  return *entry.plan;
}

void Session::hand_over_carried(Plan& plan) {
  plan.load(carried_);
  auto& values = carried_.values;
  for (const TensorSlot& tensor : plan.layout().tensors)  // '0' comes right after '/'
    values.erase(values.lower_bound(tensor.name + "/"),
                 values.lower_bound(tensor.name + "0"));
}

std::vector<bool> Session::sent_whole(const Layout& layout) const {
  std::vector<bool> whole(layout.tensors.size(),
                          config_.recipe.collective.name == "dense");
  for (const engine::Group& group :
       engine::sort_by_density(layout, config_.rules, config_.density))
    if (group.density >= 1)
      for (const std::size_t i : group.tensors) whole[i] = true;
  return whole;
}

double Session::density() {
  const auto schedule =
      make_schedule(config_.recipe.schedule, config_.density, config_.steps_per_epoch);
  return schedule->density(step());
}

State Session::save() {
  State state;
  ask([&] {
    state = carried_;
    for (auto& [id, entry] : plans_)
      if (entry.plan) entry.plan->save(state);
  });
  return state;
}

void Session::load(State state, std::uint64_t step) {
  ask([&] {
    carried_ = std::move(state);
    step_ = step;
    for (auto& [id, entry] : plans_)
      if (entry.plan) hand_over_carried(*entry.plan);
  });
}

std::uint64_t Session::step() {
  std::uint64_t step = 0;
  ask([&] { step = step_; });
  return step;
}

std::vector<std::pair<Layout, Totals>> Session::totals() {
  std::vector<std::pair<Layout, Totals>> all;
  ask([&] {
    all.emplace_back(Layout{}, retired_);
    for (auto& [id, entry] : plans_)
      if (entry.plan) all.emplace_back(entry.plan->layout(), entry.plan->totals());
  });
  return all;
}

}  // namespace topknot::python
