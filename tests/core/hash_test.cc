// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <gtest/gtest.h>

#include <array>

namespace topknot::core {
namespace {

TEST(Hash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(hash({}), 0x2d06800538d394c2ULL);  // XXH3's published value for no input
  const std::array<std::byte, 3> abc = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(hash(abc), 0x78af5f94892f3950ULL);
}

TEST(Hash, DependsOnTheSeed) { EXPECT_NE(hash({}, 1), hash({}, 2)); }

}  // namespace
}  // namespace topknot::core
