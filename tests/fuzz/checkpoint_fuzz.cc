// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as the files of a whole checkpoint, whose manifest is right: the reader comes as far as
// the contents. The first byte of an input says how many ranks saved it, 1 to 4, and how many load
// it, 1 to 3. After it comes a line for each file, the weights and then the shards: the bytes of data as
// one byte, and the header.
//
// Each rank gets the same step or the same refusal. What is folded is as long as it was.
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/containers.h"
#include "fuzz/input.h"
#include "ranks.h"
#include "store/checkpoint.h"
#include "store/memory_files.h"
#include "topknot/error.h"

namespace {

using namespace topknot;
using namespace topknot::store;
using topknot::fuzz::require;

FileSeal write(Files& files, const std::string& path, std::string_view line) {
  const std::size_t data = line.empty() ? 0 : static_cast<unsigned char>(line.front());
  const std::string_view header = line.substr(std::min<std::size_t>(line.size(), 1));
  const auto bytes = fuzz::container_of(std::as_bytes(std::span(header)), data);
  const std::span<const std::byte> piece = bytes;
  write_new(files, path, std::span(&piece, 1));
  return seal_of(std::span(&piece, 1));
}

/// Takes the first line off `text`.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

void fill(Files& files, std::string_view text, std::size_t saved) {
  Manifest manifest{3, "a", "c", "m", {}, {}};
  files.make_folder("c/step-3");
  manifest.weights = write(files, "c/step-3/" + weights_name(), next_line(text));
  for (std::size_t rank = 0; rank < saved; ++rank)
    manifest.shards.push_back(
        write(files, "c/step-3/" + shard_name(rank), next_line(text)));
  const std::string written = manifest.str();
  const std::span<const std::byte> piece = std::as_bytes(std::span(written));
  write_new(files, "c/step-3/manifest", std::span(&piece, 1));
}

bool loads(Files& files, Transport& link) {
  try {
    const Loaded loaded = CheckpointFolder(files, "c").load(link, "m");
    require(loaded.manifest.step == 3);
    for (const auto& [name, array] : loaded.own.arrays())
      if (loaded.resized) require(loaded.own.values<float>(name).size_bytes() <= 255);
    return true;
  } catch (const NoCheckpointError&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t saved = 1 + data[0] % 4;
  const int ranks = 1 + data[0] / 4 % 3;
  store::testing::MemoryFiles files;
  fill(files, {reinterpret_cast<const char*>(data) + 1, size - 1}, saved);
  std::vector<int> loaded(static_cast<std::size_t>(ranks));
  topknot::testing::run(ranks, [&](Transport& link) {
    loaded[static_cast<std::size_t>(link.rank())] = loads(files, link);
  });
  for (const int one : loaded) require(one == loaded[0]);
  return 0;
}
