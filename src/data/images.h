// SPDX-License-Identifier: Apache-2.0
//
// Sets of labelled images: what a reader of any format gives to whoever trains on it.
// Pixels are bytes, planar: all of the first channel, row by row, then the next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/random.h"
#include "data/split.h"

namespace topknot::data {

struct ImageShape {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  /// Bytes of one image.
  std::size_t size() const { return std::size_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// A set of labelled images of one shape. Nothing changes after it was opened: any number
/// of threads may read.
class Images {
 public:
  virtual ~Images();

  virtual std::size_t size() const = 0;
  /// Labels are in [0, classes()).
  virtual int classes() const = 0;
  virtual ImageShape shape() const = 0;

  /// Both throw ContractError when `i` is not below size() or `pixels` is not shape().size()
  /// long. Formats that decode when read throw DataError at an image that is broken.
  virtual int label(std::size_t i) const = 0;
  virtual void read(std::size_t i, std::span<std::uint8_t> pixels) const = 0;

  /// As `read`, but where an image is larger than shape() a random part of it, resized, as
  /// training on large photographs wants it. Elsewhere the same as `read`, without a draw.
  virtual void read_part(std::size_t i, std::span<std::uint8_t> pixels,
                         core::Random& random) const;

  /// Whether reading an image is only a copy.
  virtual bool in_memory() const { return false; }
};

/// Opens a set by name. `folder` is where its files are:
///
///   mnist, fashion-mnist    IDX, plain or gzip: {train,t10k}-{images-idx3,labels-idx1}-ubyte
///   cifar10, cifar100       the binary version; its files, or the folder that has them
///   imagenet:side=224       FOLDER/{train,val}/CLASS/*.jpeg; classes in alphabetical order
///   generated:classes=10,size=50000,seed=1,channels=3,side=32,noise=...
///                           made, not read (`folder` is ignored); the test half has a fifth
///
/// Throws ConfigError at a name or parameter that is none, DataError when a file is
/// missing, cut short or not what it should be; the sentence says how to get it.
std::unique_ptr<Images> open_images(std::string_view name,
                                    const std::filesystem::path& folder, Split split);

/// What to subtract from, and divide by, pixels that were scaled to [0, 1]; one for each
/// channel, of which the first shape().channels count.
struct Normalisation {
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};
};

/// The values that papers use for the set `name` (parameters are ignored). Throws
/// ConfigError at a name that is none.
Normalisation normalisation(std::string_view name);

/// What to vary in an image.
struct Augmentation {
  std::uint32_t pad =
      0;              ///< a window of the same size out of the image and so many zeros
  bool flip = false;  ///< left and right, for every other image
  double rotate = 0;  ///< degrees at most, either way; zeros come in at the corners
};

/// Writes `from`, varied, to `to`; both are shape.size() long and do not overlap. Draws
/// two numbers for `pad`, one for `flip` and one for `rotate`, each only where asked for, so the
/// stream's position tells nothing of the image. The same bytes on every machine.
void augment(std::span<const std::uint8_t> from, std::span<std::uint8_t> to,
             const ImageShape& shape, const Augmentation& how, core::Random& random);

}  // namespace topknot::data
