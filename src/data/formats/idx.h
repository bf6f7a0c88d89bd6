// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "data/images.h"
#include "topknot/params.h"

namespace topknot::data {

/// {train,t10k}-{images-idx3,labels-idx1}-ubyte in `folder`, plain or .gz: grey images of ten
/// classes. Throws DataError where one is missing, damaged or does not fit the other.
std::unique_ptr<Images> open_idx(const std::filesystem::path& folder, Split split,
                                 Params& params);

/// For Dataset::marks.
std::vector<std::string_view> idx_marks();

}  // namespace topknot::data
