// SPDX-License-Identifier: Apache-2.0
//
// Writes a container for layout_test.py to read: write_container FILE.
#include <vector>

#include "store/container.h"
#include "store/files.h"

int main(int, char** arguments) {
  using namespace topknot::store;
  Container container;
  container.metadata["format"] = "pt";
  container.keep("conv.weight", std::vector<float>{0, 0.5F, 1, 1.5F, 2, 2.5F}, {2, 3});
  container.keep("bytes", std::vector<std::uint8_t>{1, 2, 3});
  container.keep("count", std::int64_t{-5});
  container.keep("seed", std::vector<std::uint64_t>{1, ~std::uint64_t{0}});
  container.keep("caf\xc3\xa9 \"quoted\"\n", 0.125);
  std::string header;
  write_new(disk(), arguments[1], container.pieces(header));
  return 0;
}
