// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::data {

/// Which half of a data set.
enum class Split { train, test };

}  // namespace topknot::data
