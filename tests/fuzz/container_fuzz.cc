// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a file of a checkpoint, in four ways that the first byte of an input
// chooses between: the file itself; a header whose length is put right, before so many
// bytes of data as the second byte says; a manifest whose hash is put right; a header as the
// second, of a file of recorded gradients.
//
// What reads must lie inside the file and must come back the same from what it writes.
#include <algorithm>
#include <string>
#include <vector>

#include "core/hash.h"
#include "fuzz/containers.h"
#include "fuzz/input.h"
#include "store/container.h"
#include "store/gradients.h"
#include "store/manifest.h"
#include "store/memory_files.h"
#include "topknot/error.h"

namespace {

using namespace topknot;
using namespace topknot::store;
using topknot::fuzz::container_of;
using topknot::fuzz::require;

std::vector<std::byte> file_of(const Container& container) {
  std::string header;
  std::vector<std::byte> file;
  for (const auto piece : container.pieces(header))
    file.insert(file.end(), piece.begin(), piece.end());
  return file;
}

bool same(const Array& a, const Array& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

void check_container(std::vector<std::byte> file) {
  try {
    const std::size_t size = file.size();
    const Container read = Container::parse(std::move(file), "input");
    std::size_t bytes = 0;
    for (const auto& [name, array] : read.arrays()) bytes += array.bytes.size();
    require(bytes + 8 <= size);
    const Container again = Container::parse(file_of(read), "again");
    require(again.metadata == read.metadata);
    require(again.arrays().size() == read.arrays().size());
    for (const auto& [name, array] : read.arrays()) require(same(array, again.at(name)));
  } catch (const DataError&) {
  } catch (const ContractError&) {
    // Escapes may make the header longer than a reader takes.
  }
}

void check_gradients(const std::vector<std::byte>& file) {
  testing::MemoryFiles files;
  files.make_folder("f");
  const std::span<const std::byte> piece = file;
  write_new(files, "f/gradients", std::span(&piece, 1));
  try {
    const RecordedGradients read(files, "f/gradients");
    for (std::size_t step = 0; step < read.steps().size(); ++step)
      for (std::size_t rank = 0; rank < read.ranks().size(); ++rank)
        require(read.flat(step, rank).size() == read.layout().size());
  } catch (const DataError&) {
  }
}

void check_manifest(std::span<const std::byte> body) {
  std::string text(reinterpret_cast<const char*>(body.data()), body.size());
  const std::uint64_t hash = core::hash(body);
  text += "hash ";
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[hash >> shift & 15];
  text += '\n';
  try {
    require(Manifest::parse(std::as_bytes(std::span(text)), "input").str() == text);
  } catch (const DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  if (size < 2) return 0;
  switch (data[0] % 4) {
    case 0:
      check_container({input.begin() + 1, input.end()});
      break;
    case 1:
      check_container(container_of(input.subspan(2), data[1]));
      break;
    case 2:
      check_manifest(input.subspan(1));
      break;
    default:
      check_gradients(container_of(input.subspan(2), data[1]));
      break;
  }
  return 0;
}
