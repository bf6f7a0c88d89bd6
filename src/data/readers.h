// SPDX-License-Identifier: Apache-2.0
//
// One function a format; `open_images` picks among them. `folder` is the one that has the
// files.
#pragma once

#include "data/images.h"
#include "topknot/params.h"

namespace topknot::data {

std::unique_ptr<Images> open_idx(const std::filesystem::path& folder, Split split);
std::unique_ptr<Images> open_cifar10(const std::filesystem::path& folder, Split split);
std::unique_ptr<Images> open_cifar100(const std::filesystem::path& folder, Split split);
std::unique_ptr<Images> open_folders(const std::filesystem::path& folder, Split split,
                                     Params& params);
std::unique_ptr<Images> make_images(Split split, Params& params);

}  // namespace topknot::data
