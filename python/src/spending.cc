// SPDX-License-Identifier: Apache-2.0
#include "spending.h"

#include "topknot/budget.h"
#include "topknot/catalog.h"

namespace py = pybind11;

namespace topknot::python {

py::tuple split_of(double budget, double density, std::uint64_t local_steps) {
  const Split made = split({budget, density, local_steps});
  return py::make_tuple(made.local_steps, made.density, std::string(made.values));
}

py::tuple collective_with(const std::string& scheme, const std::string& collective,
                          const std::string& values) {
  Spec spec =
      collective.empty() ? parse_scheme(scheme).collective : parse_collective(collective);
  if (values != "f32") spec = with_values(std::move(spec), values);
  const std::string* const has = spec.params.given("values");
  return py::make_tuple(spec.str(), has == nullptr ? "f32" : *has);
}

std::string memory_of(const std::string& scheme) {
  return parse_scheme(scheme).memory.str();
}

}  // namespace topknot::python
