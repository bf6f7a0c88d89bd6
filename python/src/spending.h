// SPDX-License-Identifier: Apache-2.0
//
// How an exchange of updates spends its bytes, for Python: topknot/budget.h is the rule.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>

namespace topknot::python {

/// Local steps, density and values of topknot::split(). 0 where nothing was set.
pybind11::tuple split_of(double budget, double density, std::uint64_t local_steps);

/// The collective of `scheme`, or `collective` where that is not empty, with these values on
/// the wire, unless it has its own or takes none; and the values that it has then. Throws
/// ConfigError for a name that is not known.
pybind11::tuple collective_with(const std::string& scheme, const std::string& collective,
                                const std::string& values);

/// The memory of `scheme`, which may have parameters. Throws ConfigError for a name that is not
/// known.
std::string memory_of(const std::string& scheme);

}  // namespace topknot::python
