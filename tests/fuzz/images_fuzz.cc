// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a set of images, in ways that the first byte of an input chooses between:
// IDX, plain, as gzip, or in gzip that is as it should be; CIFAR of 10 and 100 classes,
// whose records are longer than an input and are filled up by repeating it.
#include <zlib.h>

#include "data/images.h"
#include "fuzz/files.h"

namespace {

using namespace topknot;
using namespace topknot::fuzz;
using Bytes = std::vector<std::uint8_t>;

Files& files() {
  static Files all;
  return all;
}

Bytes packed(std::span<const std::uint8_t> bytes) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(bytes.size() + 64);
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<unsigned>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void check(const data::Images& images) {
  require(images.size() > 0 && images.classes() > 0 && images.shape().size() > 0);
  Bytes pixels(images.shape().size());
  for (std::size_t i = 0; i < std::min<std::size_t>(images.size(), 4); ++i) {
    require(images.label(i) >= 0 && images.label(i) < images.classes());
    images.read(i, pixels);
  }
}

void check_idx(Input& input, int way) {
  const std::size_t labels = std::min<std::size_t>(input.byte(), input.left().size());
  const std::string end = way == 0 ? "" : ".gz";
  const auto write = [&](const std::string& name, std::span<const std::uint8_t> bytes) {
    files().write(name + end,
                  way == 2 ? packed(bytes) : Bytes(bytes.begin(), bytes.end()));
  };
  for (const char* other : {"", ".gz"}) {
    files().remove(std::string("t10k-labels-idx1-ubyte") + other);
    files().remove(std::string("t10k-images-idx3-ubyte") + other);
  }
  write("t10k-labels-idx1-ubyte", input.left().first(labels));
  write("t10k-images-idx3-ubyte", input.left().subspan(labels));
  read_or_refuse(
      [] { check(*data::open_images("mnist", files().folder(), data::Split::test)); });
}

void check_cifar(Input& input, bool hundred) {
  const std::size_t record = 3072 + (hundred ? 2 : 1);
  Bytes bytes(input.byte() % 4 * record + input.byte() % 2);
  const std::span<const std::uint8_t> said = input.left();
  if (said.empty()) return;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = said[i % said.size()];
  files().write(hundred ? "test.bin" : "test_batch.bin", bytes);
  read_or_refuse([&] {
    check(*data::open_images(hundred ? "cifar100" : "cifar10", files().folder(),
                             data::Split::test));
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({data, size});
  const int way = input.byte() % 5;
  if (way < 3) {
    check_idx(input, way);
  } else {
    check_cifar(input, way == 4);
  }
  return 0;
}
