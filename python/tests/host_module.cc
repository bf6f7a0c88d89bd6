// SPDX-License-Identifier: Apache-2.0
//
// topknot_host: a memory and the exact selection of the library by themselves, for
// kernels_cases.py. Built with the package when the tests ask for it, and never installed.

#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "core/merge.h"
#include "topknot/catalog.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

std::span<float> span_of(const at::Tensor& x) {
  return {x.data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

at::Tensor copy_of(std::span<const float> values) {
  at::Tensor copy = at::empty({static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, copy.data_ptr<float>());
  return copy;
}

Layout flat(std::uint64_t n) { return {{{"tensor", 0, {n}}}}; }

/// Copies the coordinates; fields are left alone.
class Copies final : public StateVisitor {
 public:
  void field(std::string_view, float&) override {}
  void field(std::string_view, double&) override {}
  void field(std::string_view, std::int64_t&) override {}
  void field(std::string_view, std::uint64_t&) override {}
  void field(std::string_view, std::vector<std::uint64_t>&) override {}
  void coordinates(std::string_view name, std::span<float> values) override {
    copies[std::string(name)] = copy_of(values);
  }
  std::map<std::string, at::Tensor> copies;
};

/// Steps of one rank alone: what was selected is settled.
class Host {
 public:
  Host(const std::string& memory, std::uint64_t n)
      : memory_(make_memory(parse_memory(memory), flat(n))),
        compressor_(make_compressor(parse_compressor("topk"), flat(n))) {}

  void set_residual(const at::Tensor& x) {
    std::ranges::copy(span_of(x), memory_->residual().begin());
  }

  /// Whether the step is finite, and what was selected.
  std::tuple<bool, std::vector<std::int64_t>, at::Tensor> step(const at::Tensor& gradient,
                                                               std::size_t k, double rate,
                                                               int ranks) {
    std::vector<float> grad(span_of(gradient).begin(), span_of(gradient).end());
    memory_->before(grad, {.learning_rate = rate, .ranks = ranks});
    Sparse found;
    const bool finite = compressor_->select(memory_->residual(), grad, k, found);
    if (finite) {
      core::erase(found.index, memory_->residual());
      memory_->after(
          {.count = found.size(), .index = found.index, .settled = found.index});
    }
    return {finite, {found.index.begin(), found.index.end()}, copy_of(found.value)};
  }

  std::map<std::string, at::Tensor> state() {
    Copies visitor;
    memory_->visit_state(visitor);
    return visitor.copies;
  }

 private:
  const std::unique_ptr<Memory> memory_;
  const std::unique_ptr<Compressor> compressor_;
};

}  // namespace
}  // namespace topknot::python

PYBIND11_MODULE(topknot_host, m) {
  using topknot::python::Host;
  py::class_<Host>(m, "Host")
      .def(py::init<const std::string&, std::uint64_t>(), py::arg("memory"), py::arg("n"))
      .def("set_residual", &Host::set_residual, py::arg("residual"))
      .def("step", &Host::step, py::arg("gradient"), py::arg("k"), py::arg("rate") = 1.0,
           py::arg("ranks") = 1)
      .def("state", &Host::state);
}
