// SPDX-License-Identifier: Apache-2.0
//
// IDX, the format of MNIST: two zero bytes, the type of the values (8: bytes), the number of
// dimensions, each dimension as a big-endian word, then the values, last dimension fastest.
// Images have three dimensions and labels one. Files are plain or gzip.
#include "data/formats/idx.h"

#include <array>

#include "core/plant.h"
#include "data/formats/stored_images.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10;
constexpr std::size_t kMostBytes = std::size_t{1} << 32;
constexpr std::uint32_t kMostSide = 4096;

std::uint32_t big_endian(std::span<const std::uint8_t> at) {
  return (std::uint32_t{at[0]} << 24) | (std::uint32_t{at[1]} << 16) |
         (std::uint32_t{at[2]} << 8) | at[3];
}

template <std::size_t N>
struct Idx {
  std::array<std::uint32_t, N> extent{};
  Bytes bytes;  // without the header
};

template <std::size_t N>
Idx<N> read_idx(const fs::path& file) {
  constexpr std::size_t kHead = 4 + 4 * N;
  Idx<N> idx;
  idx.bytes = read_packed(file, kHead, [&](std::span<const std::uint8_t> head) {
    if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != N)
      throw DataError(about(file) + "is not an IDX file of bytes with " +
                      std::to_string(N) + " dimensions (it does not begin with 0 0 8 " +
                      std::to_string(N) + ").");
    std::optional<std::size_t> all = 1;
    for (std::size_t d = 0; d < N; ++d) {
      idx.extent[d] = big_endian(head.subspan(4 + 4 * d));
      if (all) all = product(*all, idx.extent[d]);
    }
    if (!all || *all > kMostBytes || *all == 0)
      throw DataError(about(file) + "its header asks for " +
                      (all ? std::to_string(*all) : "more than 2^64") +
                      " bytes; such a file has 1 to " + std::to_string(kMostBytes) + ".");
    return kHead + *all;
  });
  idx.bytes.erase(idx.bytes.begin(), idx.bytes.begin() + kHead);
  return idx;
}

/// The file `name`, or `name`.gz where only that exists.
fs::path plain_or_gzip(const fs::path& folder, const std::string& name) {
  fs::path packed = folder / (name + ".gz");
  fs::path plain = folder / name;
  std::error_code error;
  return fs::exists(plain, error) || !fs::exists(packed, error) ? plain : packed;
}

}  // namespace

std::vector<std::string_view> idx_marks() {
  return {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
          "t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"};
}

std::unique_ptr<Images> open_idx(const fs::path& folder, Split split,
                                 Params& /*params*/) {
  const std::string half = split == Split::train ? "train" : "t10k";
  const fs::path image_file = plain_or_gzip(folder, half + "-images-idx3-ubyte");
  const fs::path label_file = plain_or_gzip(folder, half + "-labels-idx1-ubyte");
  Idx<3> images = read_idx<3>(image_file);
  Idx<1> labels = read_idx<1>(label_file);
  const auto [count, height, width] = images.extent;
  if (height > kMostSide || width > kMostSide)
    throw DataError(about(image_file) + "its images are " + std::to_string(height) +
                    " x " + std::to_string(width) + "; the limit is " +
                    std::to_string(kMostSide) + " pixels a side.");
  if (count != labels.extent[0])
    throw DataError(about(label_file) + "has " + std::to_string(labels.extent[0]) +
                    " labels for " + std::to_string(count) + " images.");
  for (std::size_t i = 0; i < labels.bytes.size(); ++i)
    if (labels.bytes[i] >= kClasses && !TOPKNOT_PLANT(label_unchecked))
      throw DataError(about(label_file) + "label " + std::to_string(i) + " is " +
                      std::to_string(labels.bytes[i]) + "; labels are below " +
                      std::to_string(kClasses) + ".");
  return std::make_unique<StoredImages>(ImageShape{1, height, width}, kClasses,
                                        std::move(images.bytes), std::move(labels.bytes));
}

}  // namespace topknot::data
