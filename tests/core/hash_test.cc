// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace topknot::core {
namespace {

TEST(Hash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(hash({}), 0x2d06800538d394c2ULL);  // XXH3's published value for no input
  const std::array<std::byte, 3> abc = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(hash(abc), 0x78af5f94892f3950ULL);
}

TEST(Hash, DependsOnTheSeed) { EXPECT_NE(hash({}, 1), hash({}, 2)); }

TEST(Hasher, DoesNotCareWhereTheBytesWereCut) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 239, 240, 241, 256, 999, 1000}) {
    Hasher hasher;
    hasher.add(all.first(cut));
    hasher.add(all.subspan(cut));
    EXPECT_EQ(hasher.value(), hash(all)) << cut;
  }
}

}  // namespace
}  // namespace topknot::core
