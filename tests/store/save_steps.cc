// SPDX-License-Identifier: Apache-2.0
//
// A run for kill_test.py to kill: save_steps FOLDER COUNT loads the newest checkpoint of
// two ranks, if there is any, and saves it again and COUNT steps more. It prints each
// step when it is saved, and first what it loaded.
#include <cstdio>
#include <cstdlib>

#include "store/saves.h"
#include "topknot/error.h"

namespace {

using namespace topknot;
using namespace topknot::store;

void say(const char* word, std::uint64_t step) {
  std::printf("%s %llu\n", word, static_cast<unsigned long long>(step));
  std::fflush(stdout);
}

void rank_main(Transport& link, const std::string& path, std::uint64_t count) {
  const bool speaks = link.rank() == 0;
  CheckpointFolder folder(disk(), path);
  folder.take(link);
  std::uint64_t from = 0;
  try {
    const Loaded loaded = folder.load(link, "m0");
    store::testing::expect_whole(loaded, link.rank());
    from = loaded.manifest.step;
    if (speaks) say("from", from);
  } catch (const NoCheckpointError&) {
  }
  for (std::uint64_t step = from; step <= from + count; ++step) {
    store::testing::save(folder, link, step);
    if (speaks) say("saved", step);
  }
}

}  // namespace

int main(int, char** arguments) try {
  const std::string path = arguments[1];
  const std::uint64_t count = std::strtoull(arguments[2], nullptr, 10);
  store::testing::run(2, [&](Transport& link) { rank_main(link, path, count); });
  return ::testing::Test::HasFailure() ? 1 : 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 74;
}
