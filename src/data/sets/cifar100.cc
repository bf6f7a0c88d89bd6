// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-100, the binary version (data/formats/cifar.h): train.bin and test.bin.
#include "data/dataset.h"
#include "data/formats/cifar.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

constexpr int kCoarseClasses = 20;
constexpr int kClasses = 100;

std::unique_ptr<Images> open(const fs::path& folder, Split split, Params& /*params*/) {
  const std::string name = split == Split::train ? "train" : "test";
  refuse_pickles(folder, name, "cifar-100-binary.tar.gz");
  CifarRecords records({kCoarseClasses, kClasses});
  records.append(folder / (name + ".bin"));
  return records.to_images();
}

}  // namespace

Dataset cifar100() {
  return {.name = "cifar100",
          .summary = "60,000 colour images, 32 x 32, 100 classes",
          .licence = "none stated; cite Krizhevsky 2009",
          .folder = "cifar-100-binary",
          .megabytes = 168.5,
          .packing = Packing::tar,
          .archives = {{"cifar-100-binary.tar.gz",
                        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                        "md5:03b5dce01913d631647c71ecec9e9cb8"}},
          .members = {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin",
                      "cifar-100-binary/"},
          .other_versions = cifar_pickles(),
          .marks = {"train.bin", "test.bin", "train", "test"},
          .reader = ImageReader{.open = open,
                                .normalisation = {{0.5071F, 0.4865F, 0.4409F},
                                                  {0.2673F, 0.2564F, 0.2762F}}}};
}

}  // namespace topknot::data::sets
