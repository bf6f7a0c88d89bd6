// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/images.h"
#include "topknot/params.h"

namespace topknot::data {

/// FOLDER/{train,val}/CLASS/*.JPEG as square images of `side` pixels, 224 unless `params` says
/// otherwise. Throws DataError where the two halves have other classes, or a class no picture.
std::unique_ptr<Images> open_image_folders(const std::filesystem::path& folder,
                                           Split split, Params& params);

}  // namespace topknot::data
