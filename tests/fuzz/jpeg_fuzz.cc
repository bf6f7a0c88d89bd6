// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a photograph: decoded in part or in whole, then a part of it resized, as
// training does. The first two bytes say to what.
#include "data/formats/jpeg.h"
#include "data/formats/resize.h"
#include "fuzz/files.h"

namespace {

using namespace topknot;
using namespace topknot::fuzz;

// Pictures of many pixels are read, but take all the time.
bool is_large(std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] != 0xFF || (bytes[i + 1] & 0xF0) != 0xC0) continue;
    const unsigned height = bytes[i + 5] * 256U + bytes[i + 6];
    const unsigned width = bytes[i + 7] * 256U + bytes[i + 8];
    if (height * width > 128 * 128) return true;
  }
  return false;
}

void resize_part(const data::Picture& picture, std::uint32_t side, double part) {
  data::Window window;
  window.height = std::max(1.0, part * picture.height);
  window.width = std::max(1.0, (1 - part) * picture.width);
  window.top = part * (picture.height - window.height);
  window.left = part * (picture.width - window.width);
  std::vector<std::uint8_t> pixels(std::size_t{3} * side * side);
  data::resize(picture, window, side, pixels);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Files files;
  Input input({data, size});
  const std::uint32_t side = 1 + input.byte() % 40;
  const double part = input.byte() / 255.0;
  if (is_large(input.left())) return 0;
  const auto file = files.write("x.jpeg", input.left());
  read_or_refuse([&] {
    const data::Picture picture = data::read_jpeg(file, side);
    require(picture.height > 0 && picture.width > 0);
    require(picture.pixels.size() == std::size_t{3} * picture.height * picture.width);
    resize_part(picture, side, part);
  });
  return 0;
}
