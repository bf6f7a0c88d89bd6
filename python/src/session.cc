// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>

#include "staging.h"
#include "topknot/error.h"
#include "topknot/schedule.h"
#include "transports/flight_file.h"

namespace topknot::python {
namespace {

void refuse_memory_of_updates(const EngineOptions& options) {
  const Spec memory = engine::Recipe::of(options).memory;
  if (make_memory(memory, Layout::flat(1))->units() == Units::updates)
    throw ConfigError(
        "The memory " + memory.name +
        " makes updates of gradients, and a torch optimizer would take them "
        "for gradients: residual and dgc are the memories for PyTorch.");
}

Future make_future(const at::Tensor& x) {
  std::vector<c10::Device> devices;
  if (!x.is_cpu()) devices.push_back(x.device());
  return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), devices);
}

/// Has whoever else uses the tensor's device wait for what was queued there so far.
std::function<void()> behind_the_kernels_of(const at::Tensor& x) {
  if (x.is_cpu()) return [] {};
  const c10::Device device = x.device();
  const auto stream = [device] {
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  };
  const auto queued = std::make_shared<c10::Event>(device.type());
  queued->record(stream());
  return [queued, stream] { queued->block(stream()); };
}

}  // namespace

Session::Session(const EngineOptions& options, std::uint64_t coordinates,
                 std::unique_ptr<Transport> link, std::string flight)
    : rank_(link->rank()), size_(link->size()) {
  refuse_memory_of_updates(options);
  open_ =
      std::make_shared<Open>(options, coordinates, std::move(link), std::move(flight));
}

Session::~Session() { close(); }

std::shared_ptr<Session::Open> Session::open() {
  const std::scoped_lock lock(mutex_);
  if (!open_)
    throw ConfigError("This has been closed: attach once more, or make a new one.");
  return open_;
}

Session::Open::~Open() {
  try {
    reducer.wait();
  } catch (...) {  // whoever waits for a future has been told
  }
}

void Session::Open::failed(const std::exception_ptr& what) {
  const std::scoped_lock lock(mutex);
  if (error) return;
  error = what;
  if (!flight.empty()) dump_flight(flight, link->rank(), link->size(), record, what);
}

void Session::raise_failure() {
  const std::scoped_lock lock(mutex_);
  if (!open_) return;
  const std::scoped_lock inner(open_->mutex);
  if (open_->error) std::rethrow_exception(open_->error);
}

void Session::close() {
  // Destroyed without the lock, and the slots before what they point to.
  std::map<int, std::shared_ptr<DeviceVector>> on_device;
  std::shared_ptr<Open> last;
  const std::scoped_lock lock(mutex_);
  on_device.swap(on_device_);
  last.swap(open_);
}

bool Session::idle() {
  const std::scoped_lock lock(mutex_);
  return !open_ || open_->reducer.idle();
}

void Session::select_on_devices(MakeDeviceVector make) {
  const std::string why = engine::why_on_the_host(open()->reducer.options());
  if (!why.empty()) throw ConfigError(why);
  const std::scoped_lock lock(mutex_);
  make_device_vector_ = std::move(make);
}

int Session::add_slot(Layout layout, std::optional<c10::Device> device) {
  const std::shared_ptr<Open> open = this->open();
  std::shared_ptr<DeviceVector> vector;
  if (device && make_device_vector_)
    vector = make_device_vector_(
        layout.size(), engine::Recipe::of(open->reducer.options()).memory, *device);
  const int slot = open->reducer.add_slot(std::move(layout), vector);
  const std::scoped_lock lock(mutex_);
  if (vector) on_device_[slot] = std::move(vector);
  return slot;
}

void Session::remove_slots(std::vector<int> slots) {
  {
    const std::scoped_lock lock(mutex_);
    for (const int slot : slots) on_device_.erase(slot);
  }
  open()->reducer.remove_slots(std::move(slots));
}

std::shared_ptr<DeviceVector> Session::on_device(int slot) {
  const std::scoped_lock lock(mutex_);
  const auto found = on_device_.find(slot);
  return found == on_device_.end() ? nullptr : found->second;
}

Future Session::reduce_on_device(int slot, at::Tensor x, const Reduction& reduction,
                                 const std::shared_ptr<DeviceVector>& device) {
  const std::shared_ptr<Open> open = this->open();
  const Future future = make_future(x);
  open->reducer.submit(
      slot,
      [device, x, behind_its_kernels = device->start(x)] {
        device->begin(x, behind_its_kernels);
        return Reducer::OnDevice{};
      },
      [device, x, future, settled = reduction.settled,
       used = open.get()](const Reducer::Result& result) {
        if (result.error) {
          used->failed(result.error);
          future->setError(result.error);
          return;
        }
        if (settled) *settled = result.slot->settled();
        if (!result.finite) device->spoil();
        // What is queued on this thread's stream may still run: whoever waits for the future has
        // its own stream wait for it.
        future->markCompleted(c10::IValue(x));
      });
  if (reduction.last) open->reducer.end_step();
  return future;
}

Future Session::reduce(int slot, at::Tensor x, const Reduction& reduction) {
  if (reduction.how == Reducer::Mode::by_scheme)
    if (const auto device = on_device(slot))
      return reduce_on_device(slot, std::move(x), reduction, device);
  const std::shared_ptr<Open> open = this->open();
  const Future future = make_future(x);
  const auto staging = std::make_shared<Staging>(std::move(x));
  // The reducer calls back before it is destroyed, and so before all of Open is.
  open->reducer.submit(
      slot, [staging] { return staging->values(); },
      [staging, future, settled = reduction.settled,
       used = open.get()](const Reducer::Result& result) {
        if (result.error) {
          used->failed(result.error);
          future->setError(result.error);
          return;
        }
        if (settled) *settled = result.slot->settled();
        staging->give_back(result.finite);
        future->markCompleted(c10::IValue(staging->tensor()));
      },
      reduction.how);
  if (reduction.last && reduction.how != Reducer::Mode::residuals)
    open->reducer.end_step();
  return future;
}

// The communication thread runs both of the node's exchanges, so that all its ranks have them in
// the same order.
Future Session::reduce_by_nodes(int slot, at::Tensor bucket,
                                std::shared_ptr<NodeShards> shards, bool last) {
  const std::shared_ptr<Open> open = this->open();
  const Future future = make_future(bucket);
  const auto staging = std::make_shared<std::optional<Staging>>();
  open->reducer.submit(
      slot,
      [=, wait = behind_the_kernels_of(bucket)] {
        wait();
        return staging->emplace(shards->scatter(bucket)).values();
      },
      [=](Reducer::Result& result) {
        if (result.error) {
          future->setError(result.error);
          return;
        }
        (*staging)->give_back(result.finite);
        result.finite = shards->gather(bucket);
        future->markCompleted(c10::IValue(bucket));
      });
  if (last) open->reducer.end_step();
  return future;
}

std::vector<engine::BucketPlan> Session::plan_buckets(const Layout& parameters,
                                                      std::uint64_t bytes) {
  const auto open = this->open();
  const engine::Densities& densities = open->reducer.densities();
  return engine::plan_buckets(parameters, densities.group_for_buckets(parameters), bytes,
                              densities.sets_whole_apart());
}

sim::Choice Session::choose(const std::vector<engine::BucketPlan>& buckets,
                            std::uint64_t every) {
  constexpr int kChannel = 1 << 20;  // far above those of slots
  const auto open = this->open();
  const EngineOptions& options = open->reducer.options();
  std::vector<sim::ChosenBucket> chosen;
  for (const engine::BucketPlan& plan : buckets) {
    const auto whole = sent_whole(plan.layout);
    chosen.push_back({.coordinates = plan.layout.size(),
                      .whole = std::ranges::all_of(whole, [](bool is) { return is; })});
  }
  return sim::choose(
      *open->link, kChannel,
      {.recipe = engine::Recipe::of(options), .density = options.density, .every = every},
      std::move(chosen), 0);
}

double Session::density(const Layout& layout) {
  const auto open = this->open();
  const EngineOptions& options = open->reducer.options();
  const Spec schedule = engine::Recipe::of(options).schedule;
  const std::uint64_t step = open->reducer.step();
  double smallest = 1;
  for (const engine::DensityGroup& group : open->reducer.densities().group(layout))
    smallest = std::min(
        smallest,
        make_schedule(schedule, group.density, options.steps_per_epoch)->density(step));
  return smallest;
}

State Session::save() {
  State state;
  open()->reducer.save(state);
  return state;
}

std::vector<std::pair<Layout, engine::Totals>> Session::totals() {
  const auto open = this->open();
  std::vector<std::pair<Layout, engine::Totals>> all;
  all.emplace_back(Layout{}, open->reducer.removed_totals());
  for (auto& one : open->reducer.totals()) all.push_back(std::move(one));
  return all;
}

}  // namespace topknot::python
