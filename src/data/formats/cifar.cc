// SPDX-License-Identifier: Apache-2.0
#include "data/formats/cifar.h"

#include <utility>

#include "data/formats/stored_images.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape kShape{3, 32, 32};
constexpr std::size_t kMostRecords = 1'000'000;

}  // namespace

CifarRecords::CifarRecords(std::vector<int> label_bounds)
    : label_bounds_(std::move(label_bounds)) {}

std::size_t CifarRecords::record_bytes() const {
  return label_bounds_.size() + kShape.size();
}

std::size_t CifarRecords::append(const fs::path& file) {
  const Bytes bytes = read_file(file, kMostRecords * record_bytes());
  const std::size_t count = bytes.size() / record_bytes();
  if (count == 0 || bytes.size() != count * record_bytes())
    throw DataError(about(file) + "has " + std::to_string(bytes.size()) +
                    " bytes, which is not a whole number of images of " +
                    std::to_string(record_bytes()) + ".");
  pixels_.reserve(pixels_.size() + count * kShape.size());
  for (std::size_t i = 0; i < count; ++i) append_record(file, i, bytes);
  return count;
}

void CifarRecords::append_record(const fs::path& file, std::size_t i,
                                 const Bytes& bytes) {
  const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(i * record_bytes());
  const auto label_bytes = static_cast<std::ptrdiff_t>(label_bounds_.size());
  for (std::ptrdiff_t b = 0; b < label_bytes; ++b)
    if (at[b] >= label_bounds_[static_cast<std::size_t>(b)])
      throw DataError(about(file) + "image " + std::to_string(i) + " has label " +
                      std::to_string(at[b]) + "; labels are below " +
                      std::to_string(label_bounds_[static_cast<std::size_t>(b)]) + ".");
  labels_.push_back(at[label_bytes - 1]);
  pixels_.insert(pixels_.end(), at + label_bytes,
                 at + static_cast<std::ptrdiff_t>(record_bytes()));
}

std::unique_ptr<Images> CifarRecords::to_images() {
  return std::make_unique<StoredImages>(kShape, label_bounds_.back(),
                                        std::exchange(pixels_, {}),
                                        std::exchange(labels_, {}));
}

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

std::vector<OtherVersion> cifar_pickles() {
  constexpr std::string_view kReason =
      "this is the python version, which is pickle and is not read; take the binary "
      "version.";
  return {{"cifar-10-batches-py", kReason}, {"cifar-100-python", kReason}};
}

}  // namespace topknot::data
