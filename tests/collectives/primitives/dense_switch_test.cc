// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/dense_switch.h"

#include <gtest/gtest.h>

#include <string>

#include "topknot/transports.h"

namespace topknot::collective {
namespace {

/// The first `count` coordinates of a region that starts at 1000.
Sparse pairs_of(std::size_t count) {
  Sparse pairs;
  for (std::uint32_t i = 0; i < count; ++i)
    pairs.push_back(1000 + i, 1.0F + static_cast<float>(i) / 1024);
  return pairs;
}

constexpr Region kRegion{1000, 1240};

TEST(DenseSwitch, TakesTheShorterFormAndReadsBackTheSame) {
  const auto alone = make_inproc(1);
  for (const std::string coding : {"plain", "auto", "delta", "bitmap", "dense"})
    for (const std::string values : {"f32", "bf16", "i8"}) {
      Params params = Params::parse("coding=" + coding + ",values=" + values);
      MessageChannel channel(*alone[0], "test", params);
      DenseSwitch either;
      for (std::size_t count = 0; count <= kRegion.size(); ++count) {
        SCOPED_TRACE(coding + " " + values + " " + std::to_string(count));
        const Sparse pairs = pairs_of(count);
        Message sparse;
        Message message;
        std::vector<float> sparse_error;
        std::vector<float> error;
        channel.code(pairs, kRegion, 0, sparse, sparse_error);
        const std::size_t dense = channel.dense_length(kRegion.size());
        const bool was_dense = either.code(channel, pairs, kRegion, 0, message, error);
        EXPECT_EQ(was_dense, count > 0 && sparse.size() >= dense);
        EXPECT_EQ(message.size(), was_dense ? dense : sparse.size());
        EXPECT_EQ(error, sparse_error);

        Sparse expected;
        Sparse read;
        channel.read(sparse, 0, 0, kRegion, kRegion.size(), expected);
        channel.read(message, 0, 0, kRegion, kRegion.size(), read);
        drop_filling(kRegion.size(), read);
        EXPECT_EQ(read, expected);
      }
    }
}

TEST(DenseSwitch, IsAtHalfForPlainWords) {
  const auto alone = make_inproc(1);
  Params params = Params::parse("coding=plain");
  MessageChannel channel(*alone[0], "test", params);
  DenseSwitch either;
  Message message;
  std::vector<float> error;
  EXPECT_FALSE(either.code(channel, pairs_of(119), kRegion, 0, message, error));
  EXPECT_TRUE(either.code(channel, pairs_of(120), kRegion, 0, message, error));
}

// Two bits have no zero: the filling would be read as something.
TEST(DenseSwitch, LeavesTwoBitValuesSparse) {
  const auto alone = make_inproc(1);
  Params params = Params::parse("coding=plain,values=i2");
  MessageChannel channel(*alone[0], "test", params);
  DenseSwitch either;
  Message message;
  std::vector<float> error;
  EXPECT_FALSE(either.code(channel, pairs_of(239), kRegion, 0, message, error));
}

TEST(DenseSwitch, DropsZerosOnlyFromAWholeRegion) {
  Sparse some;
  some.push_back(4, 0.0F);
  some.push_back(6, 1.0F);
  const Sparse before = some;
  drop_filling(3, some);
  EXPECT_EQ(some, before);
  drop_filling(2, some);
  EXPECT_EQ(some.index, std::vector<std::uint32_t>{6});
}

}  // namespace
}  // namespace topknot::collective
