// SPDX-License-Identifier: Apache-2.0
//
// MNIST: IDX files, plain or gzip (data/formats/idx.h).
#include "data/dataset.h"
#include "data/formats/idx.h"

namespace topknot::data::sets {

Dataset mnist() {
  return {
      .name = "mnist",
      .summary = "70,000 grey images of digits, 28 x 28, 10 classes",
      .licence = "CC BY-SA 3.0",
      .folder = "mnist",
      .megabytes = 11.6,
      .archives = {{"train-images-idx3-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/"
                    "train-images-idx3-ubyte.gz",
                    "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"},
                   {"train-labels-idx1-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/"
                    "train-labels-idx1-ubyte.gz",
                    "md5:d53e105ee54ea40749a09fcbcd1e9432"},
                   {"t10k-images-idx3-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/"
                    "t10k-images-idx3-ubyte.gz",
                    "md5:9fb629c4189551a2d022fa330f9573f3"},
                   {"t10k-labels-idx1-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/"
                    "t10k-labels-idx1-ubyte.gz",
                    "md5:ec29112dd5afa0611ce80d1b7f02629c"}},
      .marks = idx_marks(),
      .reader = ImageReader{.open = open_idx, .normalisation = {{0.1307F}, {0.3081F}}}};
}

}  // namespace topknot::data::sets
