// SPDX-License-Identifier: Apache-2.0
//
// Fashion-MNIST: IDX files, plain or gzip (data/formats/idx.h).
#include "data/dataset.h"
#include "data/formats/idx.h"

namespace topknot::data::sets {

Dataset fashion_mnist() {
  return {
      .name = "fashion-mnist",
      .summary = "70,000 grey images of clothes, 28 x 28, 10 classes",
      .licence = "MIT",
      .folder = "fashion-mnist",
      .megabytes = 30.9,
      .archives = {{"train-images-idx3-ubyte.gz",
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                    "train-images-idx3-ubyte.gz",
                    "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
                   {"train-labels-idx1-ubyte.gz",
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                    "train-labels-idx1-ubyte.gz",
                    "md5:25c81989df183df01b3e8a0aad5dffbe"},
                   {"t10k-images-idx3-ubyte.gz",
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                    "t10k-images-idx3-ubyte.gz",
                    "md5:bef4ecab320f06d8554ea6380940ec79"},
                   {"t10k-labels-idx1-ubyte.gz",
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                    "t10k-labels-idx1-ubyte.gz",
                    "md5:bb300cfdad3c16e7a12a480ee83cd310"}},
      .marks = idx_marks(),
      .by_hand =
          "apt install dataset-fashion-mnist puts it into "
          "/usr/share/datasets/fashion-mnist",
      .system_folder = "/usr/share/datasets/fashion-mnist",
      .reader = ImageReader{.open = open_idx, .normalisation = {{0.2860F}, {0.3530F}}}};
}

}  // namespace topknot::data::sets
