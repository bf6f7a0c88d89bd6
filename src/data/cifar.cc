// SPDX-License-Identifier: Apache-2.0
//
// CIFAR, the binary version: records of one label byte (CIFAR-10) or two (CIFAR-100: twenty
// coarse classes, then the hundred that count) and 3 x 32 x 32 planar bytes. There is no
// header, so that what a file should be is known by its size alone: whole records, and as
// many in each of the five files of CIFAR-10's training half.
#include <string>
#include <vector>

#include "data/readers.h"
#include "data/stored_images.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape kShape{3, 32, 32};
constexpr std::size_t kMostRecords = 1'000'000;

struct Records {
  std::vector<int> label_bounds;  // one for each label byte; the last byte counts
  Bytes pixels;
  Bytes labels;

  std::size_t record() const { return label_bounds.size() + kShape.size(); }

  /// Appends a file; returns how many records it has.
  std::size_t append(const fs::path& file) {
    const Bytes bytes = read_file(file, kMostRecords * record());
    const std::size_t count = bytes.size() / record();
    if (count == 0 || bytes.size() != count * record())
      throw DataError(about(file) + "has " + std::to_string(bytes.size()) +
                      " bytes, which is not a whole number of images of " +
                      std::to_string(record()) + ".");
    pixels.reserve(pixels.size() + count * kShape.size());
    for (std::size_t i = 0; i < count; ++i) take(file, i, bytes);
    return count;
  }

 private:
  void take(const fs::path& file, std::size_t i, const Bytes& bytes) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(i * record());
    const auto labels_here = static_cast<std::ptrdiff_t>(label_bounds.size());
    for (std::ptrdiff_t b = 0; b < labels_here; ++b)
      if (at[b] >= label_bounds[static_cast<std::size_t>(b)])
        throw DataError(about(file) + "image " + std::to_string(i) + " has label " +
                        std::to_string(at[b]) + "; labels are below " +
                        std::to_string(label_bounds[static_cast<std::size_t>(b)]) + ".");
    labels.push_back(at[labels_here - 1]);
    pixels.insert(pixels.end(), at + labels_here,
                  at + static_cast<std::ptrdiff_t>(record()));
  }
};

/// The python version has files of the same names without .bin. They are pickles: to read
/// one is to run it.
void refuse_pickles(const fs::path& folder, const std::string& name,
                    const std::string& archive) {
  std::error_code error;
  if (fs::exists(folder / (name + ".bin"), error) || !fs::exists(folder / name, error))
    return;
  throw DataError(about(folder) +
                  "this is CIFAR's python version, which is pickle and is not read; take "
                  "the binary version (" +
                  archive + ").");
}

std::unique_ptr<Images> stored(Records records) {
  const int classes = records.label_bounds.back();
  return std::make_unique<StoredImages>(kShape, classes, std::move(records.pixels),
                                        std::move(records.labels));
}

}  // namespace

std::unique_ptr<Images> open_cifar10(const fs::path& folder, Split split) {
  refuse_pickles(folder, split == Split::train ? "data_batch_1" : "test_batch",
                 "cifar-10-binary.tar.gz");
  Records records{.label_bounds = {10}, .pixels = {}, .labels = {}};
  if (split == Split::test) {
    records.append(folder / "test_batch.bin");
    return stored(std::move(records));
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
  return stored(std::move(records));
}

std::unique_ptr<Images> open_cifar100(const fs::path& folder, Split split) {
  const std::string name = split == Split::train ? "train" : "test";
  refuse_pickles(folder, name, "cifar-100-binary.tar.gz");
  Records records{.label_bounds = {20, 100}, .pixels = {}, .labels = {}};
  records.append(folder / (name + ".bin"));
  return stored(std::move(records));
}

}  // namespace topknot::data
