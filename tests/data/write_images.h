// SPDX-License-Identifier: Apache-2.0
//
// Tiny sets of images in the real formats.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <zlib.h>

#include <memory>

#include "data/images.h"
#include "data/write_files.h"

namespace topknot::data {

inline ByteString gzip(const ByteString& bytes) {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib");
  ByteString packed(deflateBound(&z, bytes.size()) + 32);
  z.next_in = const_cast<std::uint8_t*>(bytes.data());
  z.avail_in = static_cast<unsigned>(bytes.size());
  z.next_out = packed.data();
  z.avail_out = static_cast<unsigned>(packed.size());
  deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

/// Generated images of a shape, to be written in some format.
inline std::unique_ptr<Images> images_like(int channels, int side, int classes,
                                           std::size_t count) {
  return open_images(
      "generated:channels=" + std::to_string(channels) + ",side=" + std::to_string(side) +
          ",size=" + std::to_string(count) + ",classes=" + std::to_string(classes),
      {}, Split::train);
}

inline void append_word(ByteString& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(word >> shift));
}

/// The two halves of MNIST or Fashion-MNIST, gzipped or plain.
inline void write_idx(const std::filesystem::path& folder, std::size_t train,
                      std::size_t test, bool packed = true, int side = 28) {
  const auto set = images_like(1, side, 10, train + test);
  ByteString image(set->shape().size());
  std::size_t at = 0;
  for (const std::string half : {"train", "t10k"}) {
    const std::size_t count = half == "train" ? train : test;
    ByteString images = {0, 0, 8, 3};
    ByteString labels = {0, 0, 8, 1};
    append_word(images, static_cast<std::uint32_t>(count));
    append_word(images, static_cast<std::uint32_t>(side));
    append_word(images, static_cast<std::uint32_t>(side));
    append_word(labels, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i, ++at) {
      set->read(at, image);
      images.insert(images.end(), image.begin(), image.end());
      labels.push_back(static_cast<std::uint8_t>(set->label(at)));
    }
    const std::string end = packed ? ".gz" : "";
    write_file(folder / (half + "-images-idx3-ubyte" + end),
               packed ? gzip(images) : images);
    write_file(folder / (half + "-labels-idx1-ubyte" + end),
               packed ? gzip(labels) : labels);
  }
}

/// Records [first, first + count) of CIFAR; CIFAR-100's have a coarse label before.
inline ByteString cifar_records(const Images& set, std::size_t first, std::size_t count) {
  ByteString records;
  ByteString image(set.shape().size());
  for (std::size_t i = first; i < first + count; ++i) {
    const int label = set.label(i);
    if (set.classes() == 100) records.push_back(static_cast<std::uint8_t>(label / 5));
    records.push_back(static_cast<std::uint8_t>(label));
    set.read(i, image);
    records.insert(records.end(), image.begin(), image.end());
  }
  return records;
}

/// CIFAR-10 with `batch` images in each of its six files.
inline void write_cifar10(const std::filesystem::path& folder, std::size_t batch) {
  const auto set = images_like(3, 32, 10, 6 * batch);
  for (std::size_t b = 0; b < 6; ++b)
    write_file(folder / (b == 5 ? "test_batch.bin"
                                : "data_batch_" + std::to_string(b + 1) + ".bin"),
               cifar_records(*set, b * batch, batch));
}

inline void write_cifar100(const std::filesystem::path& folder, std::size_t train,
                           std::size_t test) {
  const auto set = images_like(3, 32, 100, train + test);
  write_file(folder / "train.bin", cifar_records(*set, 0, train));
  write_file(folder / "test.bin", cifar_records(*set, train, test));
}

/// A JPEG of planar red, green and blue.
inline void write_jpeg(const std::filesystem::path& file, const ByteString& planar,
                       unsigned height, unsigned width, int quality = 90) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr report{};
  codec.err = jpeg_std_error(&report);
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_width = width;
  codec.image_height = height;
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  jpeg_start_compress(&codec, TRUE);
  ByteString row(std::size_t{3} * width);
  const std::size_t plane = std::size_t{height} * width;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        row[3 * x + c] = planar[c * plane + y * width + x];
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&codec, rows, 1);
  }
  jpeg_finish_compress(&codec);
  const ByteString written(bytes, bytes + size);
  std::free(bytes);
  jpeg_destroy_compress(&codec);
  write_file(file, written);
}

/// ImageNet's folders, with `each` pictures of side x side for a class and half.
inline void write_folders(const std::filesystem::path& folder, int classes,
                          std::size_t each, int side = 64) {
  const auto set = images_like(3, side, classes, 100 * each * classes);
  ByteString image(set->shape().size());
  const auto edge = static_cast<unsigned>(side);
  for (int c = 0; c < classes; ++c) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < 2 * each; ++i, ++at) {
      while (set->label(at) != c) ++at;
      set->read(at, image);
      const std::string name = "n0" + std::to_string(100 + c);
      write_jpeg(folder / (i < each ? "train" : "val") / name /
                     (name + "_" + std::to_string(i) + ".JPEG"),
                 image, edge, edge);
    }
  }
}

}  // namespace topknot::data
