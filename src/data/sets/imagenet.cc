// SPDX-License-Identifier: Apache-2.0
//
// ImageNet: {train,val}/CLASS/*.JPEG (data/formats/image_folders.h).
#include "data/dataset.h"
#include "data/formats/image_folders.h"

namespace topknot::data::sets {

Dataset imagenet() {
  return {.name = "imagenet",
          .summary = "1.3 million photographs in 1,000 folders of JPEG",
          .licence = "research only, by ImageNet's terms of access",
          .folder = "imagenet",
          .megabytes = 147'000,
          .marks = {"train", "val"},
          .by_hand =
              "register at https://image-net.org, take ILSVRC2012, and unpack it into "
              "DIR/train/CLASS/*.JPEG and DIR/val/CLASS/*.JPEG",
          .reader = ImageReader{
              .open = open_image_folders,
              .normalisation = {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
              .takes_parameters = true}};
}

}  // namespace topknot::data::sets
