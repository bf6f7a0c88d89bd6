// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>
#include <vector>

#include "session.h"

namespace topknot::python {

/// A communication hook for DDP's reducer, to be registered once and before the first
/// backward. `parameters` are the model's, with the names that state is kept by. With `node`, a
/// group of the ranks of this node, the session is between nodes.
std::unique_ptr<c10d::CommHookInterface> make_hook(
    std::shared_ptr<Session> session,
    const std::vector<std::pair<std::string, at::Tensor>>& parameters, Group node);

}  // namespace topknot::python
