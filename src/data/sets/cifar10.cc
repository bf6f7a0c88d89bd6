// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-10, the binary version (data/formats/cifar.h): data_batch_{1..5}.bin and test_batch.bin.
#include "data/dataset.h"
#include "data/formats/cifar.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Images> open(const fs::path& folder, Split split, Params& /*params*/) {
  refuse_pickles(folder, split == Split::train ? "data_batch_1" : "test_batch",
                 "cifar-10-binary.tar.gz");
  CifarRecords records({10});
  if (split == Split::test) {
    records.append(folder / "test_batch.bin");
    return records.to_images();
  }
  std::size_t first = 0;
  for (int batch = 1; batch <= 5; ++batch) {
    const fs::path file = folder / ("data_batch_" + std::to_string(batch) + ".bin");
    const std::size_t count = records.append(file);
    if (batch == 1) first = count;
    if (count != first)
      throw DataError(about(file) + "has " + std::to_string(count) +
                      " images and data_batch_1.bin has " + std::to_string(first) +
                      "; all five have the same.");
  }
  return records.to_images();
}

}  // namespace

Dataset cifar10() {
  return {.name = "cifar10",
          .summary = "60,000 colour images, 32 x 32, 10 classes",
          .licence = "none stated; cite Krizhevsky 2009",
          .folder = "cifar-10-batches-bin",
          .megabytes = 170.1,
          .packing = Packing::tar,
          .archives = {{"cifar-10-binary.tar.gz",
                        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                        "md5:c32a1d4ab5d03f1284b67883e8d87530"}},
          .members = {"cifar-10-batches-bin/data_batch_1.bin",
                      "cifar-10-batches-bin/data_batch_2.bin",
                      "cifar-10-batches-bin/data_batch_3.bin",
                      "cifar-10-batches-bin/data_batch_4.bin",
                      "cifar-10-batches-bin/data_batch_5.bin",
                      "cifar-10-batches-bin/test_batch.bin", "cifar-10-batches-bin/"},
          .other_versions = cifar_pickles(),
          .marks = {"data_batch_1.bin", "test_batch.bin", "data_batch_1", "test_batch"},
          .reader = ImageReader{.open = open,
                                .normalisation = {{0.4914F, 0.4822F, 0.4465F},
                                                  {0.2470F, 0.2435F, 0.2616F}}}};
}

}  // namespace topknot::data::sets
