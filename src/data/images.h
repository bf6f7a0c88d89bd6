// SPDX-License-Identifier: Apache-2.0
//
// Sets of labelled images, whatever their format on disk.
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

/// A set of labelled images of one shape. It is immutable, so any number of threads may read.
class Images {
 public:
  virtual ~Images();

  virtual std::size_t size() const = 0;
  /// Labels are in [0, classes()).
  virtual int classes() const = 0;
  virtual ImageShape shape() const = 0;

  /// `label` and `read` throw ContractError unless i < size() and `pixels` is shape().size()
  /// long. `read` throws DataError at a broken image, where images are decoded when read.
  virtual int label(std::size_t i) const = 0;
  virtual void read(std::size_t i, std::span<std::uint8_t> pixels) const = 0;

  /// Where images are larger than shape(): a random part, resized, for training on large
  /// photographs. Otherwise the same as `read`, and nothing is drawn.
  virtual void read_part(std::size_t i, std::span<std::uint8_t> pixels,
                         core::Random& random) const;

  /// Whether reading an image is only a copy.
  virtual bool in_memory() const { return false; }
};

/// Opens a data set that has an ImageReader, such as "cifar10" or "imagenet:side=224", whose
/// files find_folder finds by `folder`; or
/// "generated:classes=10,size=50000,seed=1,channels=3,side=32,noise=12", whose test half has a
/// fifth of `size`. Throws ConfigError at an unknown name or parameter, DataError where a file
/// is missing, cut short or not what it should be; the sentence says how to get the set.
std::unique_ptr<Images> open_images(std::string_view name,
                                    const std::filesystem::path& folder, Split split);

/// Mean and standard deviation of each channel, of pixels scaled to [0, 1]. The first
/// shape().channels count.
struct Normalisation {
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};
};

/// The values that papers use for the set `name`, whatever its parameters. Throws ConfigError
/// at an unknown name.
Normalisation normalisation(std::string_view name);

/// How to vary an image.
struct Augmentation {
  std::uint32_t pad =
      0;  ///< zeros around the image, out of which a window of its size is cut
  bool flip = false;  ///< mirror half of the images
  double rotate = 0;  ///< at most so many degrees either way; corners become zero
};

/// Writes `from`, varied, to `to`; both are shape.size() long and do not overlap. Draws two
/// numbers for `pad`, one for `flip` and one for `rotate` where `how` asks for these, so the
/// number of draws does not depend on the image. The same bytes on every machine.
void augment(std::span<const std::uint8_t> from, std::span<std::uint8_t> to,
             const ImageShape& shape, const Augmentation& how, core::Random& random);

}  // namespace topknot::data
