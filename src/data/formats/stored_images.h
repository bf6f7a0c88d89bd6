// SPDX-License-Identifier: Apache-2.0
//
// Images in memory, for formats of small pictures.
#pragma once

#include <algorithm>
#include <utility>

#include "data/file.h"
#include "data/images.h"
#include "topknot/error.h"

namespace topknot::data {

// Every implementation of Images calls these before it reads.
inline void check_index(std::size_t i, std::size_t size) {
  if (i >= size)
    throw ContractError("There is no image " + std::to_string(i) + ": there are " +
                        std::to_string(size) + ", counted from 0.");
}

inline void check_read(std::size_t i, const Images& set, std::size_t bytes) {
  check_index(i, set.size());
  if (bytes != set.shape().size())
    throw ContractError("An image has " + std::to_string(set.shape().size()) +
                        " bytes, and the buffer for it has " + std::to_string(bytes) +
                        ".");
}

/// `pixels` holds labels.size() images one after another; labels are below `classes`.
class StoredImages final : public Images {
 public:
  StoredImages(ImageShape shape, int classes, Bytes pixels, Bytes labels)
      : shape_(shape),
        classes_(classes),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)) {}

  std::size_t size() const override { return labels_.size(); }
  int classes() const override { return classes_; }
  ImageShape shape() const override { return shape_; }

  int label(std::size_t i) const override {
    check_index(i, size());
    return labels_[i];
  }

  void read(std::size_t i, std::span<std::uint8_t> pixels) const override {
    check_read(i, *this, pixels.size());
    std::copy_n(pixels_.begin() + static_cast<std::ptrdiff_t>(i * pixels.size()),
                pixels.size(), pixels.begin());
  }

  bool in_memory() const override { return true; }

 private:
  ImageShape shape_;
  int classes_;
  Bytes pixels_;
  Bytes labels_;
};

}  // namespace topknot::data
