// SPDX-License-Identifier: Apache-2.0
//
// A bucket's state as a Python dictionary that torch.save and torch.load(weights_only=True)
// take. What type a value has says which it is:
//
//   tensor of float32, one dimension   one value for each coordinate of a parameter
//   tensor of int64, one dimension     a list of numbers
//   tensor of float32 or int64, none   a float or an unsigned number
//   float, int                         a double or a signed number
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "topknot/state.h"

namespace topknot::python {

pybind11::dict to_dict(State state);
/// Throws ConfigError, naming the key, for what to_dict() does not make.
State from_dict(const pybind11::dict& values);

}  // namespace topknot::python
