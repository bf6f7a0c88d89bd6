// SPDX-License-Identifier: Apache-2.0
#include "state_dict.h"

#include <ATen/ATen.h>

#include <cstring>

#include "topknot/error.h"

namespace py = pybind11;

namespace topknot::python {
namespace {

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, type);
  std::memcpy(tensor.data_ptr(), values.data(), values.size() * sizeof(T));
  return tensor;
}

template <typename T>
std::vector<T> vector_of(const at::Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.numel()));
  std::memcpy(values.data(), tensor.data_ptr(), values.size() * sizeof(T));
  return values;
}

struct ToPython {
  py::object operator()(float x) const {
    return py::cast(at::scalar_tensor(x, at::kFloat));
  }
  py::object operator()(double x) const { return py::float_(x); }
  py::object operator()(std::int64_t x) const { return py::int_(x); }
  py::object operator()(std::uint64_t x) const {
    return py::cast(at::scalar_tensor(static_cast<std::int64_t>(x), at::kLong));
  }
  py::object operator()(const std::vector<std::uint64_t>& x) const {
    return py::cast(tensor_of(x, at::kLong));
  }
  py::object operator()(const std::vector<float>& x) const {
    return py::cast(tensor_of(x, at::kFloat));
  }
};

State::Value from_tensor(const at::Tensor& given, const std::string& key) {
  const at::Tensor tensor = given.detach().cpu().contiguous();
  if (tensor.scalar_type() == at::kFloat && tensor.dim() == 0)
    return tensor.item<float>();
  if (tensor.scalar_type() == at::kLong && tensor.dim() == 0)
    return static_cast<std::uint64_t>(tensor.item<std::int64_t>());
  if (tensor.scalar_type() == at::kFloat) return vector_of<float>(tensor);
  if (tensor.scalar_type() == at::kLong) return vector_of<std::uint64_t>(tensor);
  throw ConfigError("The state has a tensor of a type at " + key +
                    " that topknot never saves: it is of something else.");
}

}  // namespace

py::dict to_dict(State state) {
  py::dict values;
  for (auto& [key, value] : state.values) {
    values[py::str(key)] = std::visit(ToPython{}, value);
    value = 0.0F;  // frees the memory at once
  }
  return values;
}

State from_dict(const py::dict& values) {
  State state;
  for (const auto& [name, value] : values) {
    const auto key = py::cast<std::string>(name);
    if (py::isinstance<py::float_>(value)) {
      state.values[key] = py::cast<double>(value);
    } else if (py::isinstance<py::int_>(value)) {
      state.values[key] = py::cast<std::int64_t>(value);
    } else {
      state.values[key] = from_tensor(py::cast<at::Tensor>(value), key);
    }
  }
  return state;
}

}  // namespace topknot::python
