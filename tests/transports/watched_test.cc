// SPDX-License-Identifier: Apache-2.0
#include "transports/watched.h"

#include <gtest/gtest.h>

#include <thread>

#include "topknot/transports.h"

namespace topknot {
namespace {

TEST(Watched, SaysWhomItWaitsForAndNobodyOtherwise) {
  auto links = make_inproc(3);
  const auto waiting = std::make_shared<Waiting>();
  EXPECT_EQ(waiting->now().rank, -1);
  const auto watched = make_watched(*links[0], waiting);
  const auto channel = watched->channel(7);  // further channels are watched, too
  std::vector<std::byte> got;
  std::thread rank_0([&] { channel->wait(channel->recv(2, got, 1)); });
  while (waiting->now().rank < 0) std::this_thread::yield();
  EXPECT_EQ(waiting->now().rank, 2);
  EXPECT_GE(waiting->now().seconds, 0);
  const std::byte word{9};
  const auto peer = links[2]->channel(7);
  peer->wait(peer->send(0, {&word, 1}));
  rank_0.join();
  EXPECT_EQ(got, std::vector<std::byte>{word});
  EXPECT_EQ(waiting->now().rank, -1);
}

}  // namespace
}  // namespace topknot
