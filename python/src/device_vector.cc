// SPDX-License-Identifier: Apache-2.0
#include "device_vector.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "topknot/error.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

at::Tensor tensor_of(std::span<const float> values) {
  return at::from_blob(const_cast<float*>(values.data()),
                       {static_cast<std::int64_t>(values.size())}, at::kFloat);
}

// Positions are below 2^31, as device_kernels.py requires.
at::Tensor tensor_of(std::span<const std::uint32_t> index) {
  return at::from_blob(const_cast<std::uint32_t*>(index.data()),
                       {static_cast<std::int64_t>(index.size())}, at::kInt);
}

py::list list_of(std::span<const engine::Piece> pieces) {
  py::list list;
  for (const engine::Piece& piece : pieces)
    list.append(py::make_tuple(piece.offset, piece.size));
  return list;
}

template <typename T>
std::vector<T> in_order(std::span<const T> values, std::span<const std::size_t> order) {
  std::vector<T> sorted;
  sorted.reserve(order.size());
  for (const std::size_t i : order) sorted.push_back(values[i]);
  return sorted;
}

}  // namespace

DeviceVector::DeviceVector(py::object memory, py::object stand_in, const Spec& kind)
    : memory_(std::move(memory)),
      stand_in_(std::move(stand_in)),
      size_(memory_.attr("size").cast<std::size_t>()),
      bytes_(memory_.attr("bytes")().cast<std::uint64_t>()),
      only_keeps_residual_(kind.name == "residual") {}

DeviceVector::~DeviceVector() {
  const py::gil_scoped_acquire acquire;
  memory_ = py::object();
  stand_in_ = py::object();
}

// An error of Python needs Python's lock even to be destroyed, so only its text goes on.
template <typename... Arguments>
py::object DeviceVector::call(const char* method, Arguments&&... arguments) const {
  try {
    return memory_.attr(method)(std::forward<Arguments>(arguments)...);
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(error.what());
  }
}

std::function<void()> DeviceVector::start(const at::Tensor& x) const {
  if (!stand_in_.is_none()) {
    const py::gil_scoped_acquire acquire;
    const std::shared_ptr<py::object> event(new py::object(stand_in_.attr("record")(x)),
                                            [](py::object* object) {
                                              const py::gil_scoped_acquire again;
                                              delete object;
                                            });
    return [this, event] { stand_in_.attr("wait")(*event); };
  }
  const c10::Device device = x.device();
  const auto queued = std::make_shared<c10::Event>(device.type());
  queued->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return [queued, device] {
    // The communication thread stays on a stream of its own: what is queued there overlaps with
    // the kernels of backward.
    thread_local std::vector<std::pair<c10::Device, c10::Stream>> own;
    const c10::impl::VirtualGuardImpl guard(device.type());
    auto found =
        std::ranges::find(own, device, [](const auto& one) { return one.first; });
    if (found == own.end())
      found = own.insert(own.end(), {device, guard.getStreamFromGlobalPool(device)});
    guard.setDevice(device);
    guard.exchangeStream(found->second);
    queued->block(found->second);
  };
}

void DeviceVector::begin(const at::Tensor& x,
                         const std::function<void()>& behind_its_kernels) {
  const py::gil_scoped_acquire acquire;
  forget_step();
  behind_its_kernels();
  call("begin", x);
}

void DeviceVector::spoil() {
  const py::gil_scoped_acquire acquire;
  call("spoil");
}

void DeviceVector::take_out(std::span<const engine::Piece> pieces, std::span<float> to) {
  const py::gil_scoped_acquire acquire;
  call("take_out", list_of(pieces), tensor_of(to));
}

void DeviceVector::put_back(std::span<const engine::Piece> pieces,
                            std::span<const float> from) {
  const py::gil_scoped_acquire acquire;
  call("put_back", list_of(pieces), tensor_of(from));
}

void DeviceVector::write(std::span<const std::uint32_t> index,
                         std::span<const float> mean) {
  const py::gil_scoped_acquire acquire;
  call("write", tensor_of(index), tensor_of(mean));
}

// ---- Memory

void DeviceVector::before(std::span<float>, const LocalStep& step) {
  const py::gil_scoped_acquire acquire;
  call("before", step.learning_rate);
}

std::span<float> DeviceVector::residual() {
  const py::gil_scoped_acquire acquire;
  copy_.resize(size_);
  call("fetch", "residual", tensor_of(copy_));
  return copy_;
}

void DeviceVector::clear_residual() {
  const py::gil_scoped_acquire acquire;
  call("clear");
}

void DeviceVector::after(const Reduced& reduced) {
  const py::gil_scoped_acquire acquire;
  send_settled();
  for (const Sparse& pairs : added_)
    call("add", tensor_of(pairs.index), tensor_of(pairs.value));
  // A step that settles everything masks nothing.
  if (only_keeps_residual_ || reduced.settled.empty()) {
    call("after", py::none(), false);
  } else {
    std::vector<std::uint32_t> sorted(reduced.settled.begin(), reduced.settled.end());
    std::ranges::sort(sorted);
    const bool selected = are_selected(sorted);
    call("after", selected ? bits_of(sorted) : tensor_of(sorted), selected);
  }
  forget_step();
}

void DeviceVector::undo_step() {
  const py::gil_scoped_acquire acquire;
  call("undo_step");
}

void DeviceVector::undo_sum(std::span<const std::uint32_t> index,
                            std::span<const float> mean) {
  const py::gil_scoped_acquire acquire;
  call("undo_sum", tensor_of(index), tensor_of(mean));
}

void DeviceVector::visit_state(StateVisitor& visitor) {
  const py::gil_scoped_acquire acquire;
  const auto is_used = memory_.attr("is_used").cast<bool>();  // else all is zero
  std::vector<float> values(size_);
  for (const py::handle name : call("names")) {
    std::ranges::fill(values, 0.0F);
    if (is_used) call("fetch", name, tensor_of(values));
    visitor.coordinates(name.cast<std::string>(), values);
    if (is_used || std::ranges::any_of(values, [](float x) { return x != 0; }))
      call("load", name, tensor_of(values));
  }
  if (!only_keeps_residual_) return;
  auto rate = memory_.attr("last_rate").cast<double>();
  visitor.field("last_rate", rate);
  memory_.attr("last_rate") = rate;
}

// ---- ResidualVector

bool DeviceVector::fold(std::span<float>) {
  const py::gil_scoped_acquire acquire;
  selected_.clear();
  return call("fold").cast<bool>();
}

bool DeviceVector::select(Compressor&, std::span<float>, std::size_t k, Sparse& out) {
  const py::gil_scoped_acquire acquire;
  const py::tuple found = call("select", k);
  const auto index = found[1].cast<at::Tensor>();
  const auto value = found[2].cast<at::Tensor>();
  const auto* const first = static_cast<const std::uint32_t*>(index.const_data_ptr());
  out.index.assign(first, first + index.numel());
  out.value.assign(value.const_data_ptr<float>(),
                   value.const_data_ptr<float>() + value.numel());
  selected_ = out.index;
  return found[0].cast<bool>();
}

void DeviceVector::undo_fold(std::span<const float>) {
  const py::gil_scoped_acquire acquire;
  call("undo_fold");
}

void DeviceVector::gather(std::span<const std::uint32_t> index, std::span<float> value) {
  const py::gil_scoped_acquire acquire;
  call("gather", tensor_of(index), tensor_of(value));
}

void DeviceVector::settle(std::span<const std::uint32_t> index,
                          std::span<const float> error) {
  settled_.index.insert(settled_.index.end(), index.begin(), index.end());
  settled_.value.insert(settled_.value.end(), error.begin(), error.end());
  settled_.value.resize(settled_.index.size());
  has_errors_ |= !error.empty();
}

// Pairs that lie behind those before them join them: a collective may come slice by slice.
void DeviceVector::add(SparseView pairs) {
  if (pairs.empty()) return;
  if (added_.empty() || added_.back().index.back() >= pairs.index.front())
    added_.emplace_back();
  added_.back().append(pairs);
}

std::span<float> DeviceVector::host() {
  throw ConfigError(
      "This collective needs the residual in host memory, and it is on a device.");
}

void DeviceVector::forget_step() {
  settled_.clear();
  has_errors_ = false;
  added_.clear();
}

bool DeviceVector::are_selected(std::span<const std::uint32_t> sorted) const {
  return std::ranges::includes(selected_, sorted);
}

at::Tensor DeviceVector::bits_of(std::span<const std::uint32_t> sorted) const {
  at::Tensor bits =
      at::zeros({static_cast<std::int64_t>((selected_.size() + 7) / 8)}, at::kByte);
  auto* const bytes = bits.data_ptr<std::uint8_t>();
  std::size_t i = 0;
  for (const std::uint32_t position : sorted) {
    while (selected_[i] != position) ++i;
    bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (1U << (i % 8)));
  }
  return bits;
}

// Of what was selected here a bit tells whether it is settled; that is all in most collectives.
void DeviceVector::send_settled() {
  if (settled_.empty()) return;
  std::vector<std::size_t> order(settled_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return settled_.index[i]; });
  const auto sorted = in_order<std::uint32_t>(settled_.index, order);
  auto error =
      has_errors_ ? in_order<float>(settled_.value, order) : std::vector<float>();
  if (!are_selected(sorted)) {
    call("settle", tensor_of(sorted), false, tensor_of(error));
    return;
  }
  if (has_errors_) {
    std::vector<float> of_selected(selected_.size());
    std::size_t i = 0;
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      while (selected_[i] != sorted[j]) ++i;
      of_selected[i] = error[j];
    }
    error = std::move(of_selected);
  }
  call("settle", bits_of(sorted), true, tensor_of(error));
}

}  // namespace topknot::python
