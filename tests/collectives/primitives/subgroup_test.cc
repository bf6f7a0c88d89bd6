// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/subgroup.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "ranks.h"
#include "refusal.h"
#include "transports/forwarding_transport.h"

namespace topknot::collective {
namespace {

using testing::run;
using testing::run_to_the_end;

int receive_word(Transport& link, int from) {
  std::vector<std::byte> bytes;
  link.wait(link.recv(from, bytes, sizeof(int)));
  int word = -1;
  std::memcpy(&word, bytes.data(), bytes.size());
  return word;
}

/// Everyone tells its right neighbour who it is and returns what it was told.
int pass_round(Transport& link, int mine) {
  const int right = (link.rank() + 1) % link.size();
  const int left = (link.rank() + link.size() - 1) % link.size();
  const Pending sent = link.send(right, std::as_bytes(std::span(&mine, 1)));
  const int heard = receive_word(link, left);
  link.wait(sent);
  return heard;
}

// Six ranks as two rows of three and three columns of two; both at a time.
TEST(SubgroupTransport, NumbersItsMembersAndKeepsGroupsApart) {
  run(6, [](Transport& link) {
    const int row = link.rank() / 3;
    const int column = link.rank() % 3;
    const auto along =
        make_subgroup_transport(link, {{3 * row, 3 * row + 1, 3 * row + 2}, link.rank()});
    const auto down = make_subgroup_transport(
        link, {{column + 3, column}, link.rank()});  // in an order of its own
    EXPECT_EQ(along->rank(), column);
    EXPECT_EQ(along->size(), 3);
    EXPECT_EQ(down->rank(), 1 - row);
    EXPECT_EQ(down->size(), 2);
    EXPECT_EQ(pass_round(*along, link.rank()), 3 * row + (column + 2) % 3);
    EXPECT_EQ(pass_round(*down, link.rank()), 3 * (1 - row) + column);
  });
}

TEST(SubgroupTransport, HasChannelsOfItsOwn) {
  run(4, [](Transport& link) {
    const int row = link.rank() / 2;
    const auto group =
        make_subgroup_transport(link, {{2 * row, 2 * row + 1}, link.rank()});
    const auto first = group->channel(1);
    const auto second = group->channel(2);
    const auto deeper = second->channel(1);
    if (group->rank() == 0) {
      // Sent in one order, received in another: messages of one channel do not overtake
      // each other, those of different channels do not meet.
      const int words[] = {10, 20, 30, 40};
      Transport* const ways[] = {group.get(), first.get(), second.get(), deeper.get()};
      std::vector<Pending> sent;
      for (std::size_t i = 0; i < 4; ++i)
        sent.push_back(ways[i]->send(1, std::as_bytes(std::span(words + i, 1))));
      for (std::size_t i = 0; i < 4; ++i) ways[i]->wait(sent[i]);
    } else {
      EXPECT_EQ(receive_word(*deeper, 0), 40);
      EXPECT_EQ(receive_word(*first, 0), 20);
      EXPECT_EQ(receive_word(*second, 0), 30);
      EXPECT_EQ(receive_word(*group, 0), 10);
    }
  });
}

TEST(SubgroupTransport, HasNoAllreduceOfItsOwn) {
  run(2, [](Transport& link) {
    const auto alone = make_subgroup_transport(link, {{link.rank()}, link.rank()});
    std::vector<float> x = {1, 2};
    EXPECT_FALSE(alone->allreduce(x));
    EXPECT_EQ(x, (std::vector<float>{1, 2}));
  });
}

TEST(Subgroup, RefusesARankThatIsNotInIt) {
  EXPECT_REFUSAL(Subgroup({4, 6}, 5), ContractError,
                 "Rank 5 is not in the subgroup that it is to be a member of.");
}

TEST(Subgroup, StandsInACircle) {
  const Subgroup group = Subgroup::strided(1, 3, 4, 7);  // 1, 4, 7, 10
  EXPECT_EQ(group.size(), 4);
  EXPECT_EQ(group.place(), 2);
  EXPECT_EQ(group.rank(3), 10);
  EXPECT_EQ(group.member_of(4), 1);
  EXPECT_EQ(group.member_of(5), 4 + 5);
  for (int turns = -3; turns <= 3; ++turns) {
    EXPECT_EQ(group.member(4 * turns), 2);
    EXPECT_EQ(group.member(4 * turns + 1), 3);
    EXPECT_EQ(group.member(4 * turns - 3), 3);
  }
}

TEST(Subgroup, CutsRanksByTheirDivisors) {
  EXPECT_EQ(divisors_of(1), "1");
  EXPECT_EQ(divisors_of(12), "1, 2, 3, 4, 6, 12");
}

TEST(SubgroupTransport, NamesTheSilentMember) {
  std::optional<int> inside;
  std::optional<int> outside;
  run_to_the_end(4,
                 [&](Transport& link) {
                   if (link.rank() != 1) return;  // the others leave
                   const Subgroup members({1, 3}, link.rank());
                   const auto group = make_subgroup_transport(link, members);
                   try {
                     in_subgroup(members, [&] {
                       try {
                         receive_word(*group, 1);
                       } catch (const LinkError& error) {
                         inside = error.peer();
                         throw;
                       }
                     });
                   } catch (const LinkError& error) {
                     outside = error.peer();
                     EXPECT_NE(std::string(error.what()).find("is rank 3 of the job"),
                               std::string::npos)
                         << error.what();
                   }
                 },
                 {.timeout = 5});
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(outside, 3);
}

/// A channel that has failed because of rank 3.
class Failed final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Pending send(int, std::span<const std::byte>) override { throw LinkError(3, "Gone."); }
  Pending recv(int, std::vector<std::byte>&, std::size_t) override {
    throw DisagreementError(0, "No.");
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return channel;
  }
};

TEST(SubgroupTransport, RenumbersWhatASendAndAReceiveThrow) {
  const auto links = make_inproc(4);
  Failed failed(*links[1]);
  const Subgroup members({1, 3}, 1);
  const auto group = make_subgroup_transport(failed, members);
  std::vector<std::byte> in;
  const auto blamed = [&](auto call) {
    try {
      in_subgroup(members, call);
    } catch (const LinkError& error) {
      return error.peer();
    }
    return -1;
  };
  EXPECT_EQ(blamed([&] { return group->send(1, {}); }), 3);
  EXPECT_EQ(blamed([&] { return group->recv(1, in, 1); }), 0);
}

TEST(SubgroupTransport, KeepsTheKindOfAnError) {
  const auto quarrel = [] { throw DisagreementError(1, "No."); };
  EXPECT_THROW(in_subgroup({{5, 6}, 5}, quarrel), DisagreementError);
  EXPECT_EQ(in_subgroup({{5, 6}, 5}, [] { return 7; }), 7);
  // One from outside the group is not renumbered by it.
  EXPECT_EQ(seen_from_job(LinkError(2 + 9, "Gone."), {{5, 6}, 5}).peer(), 9);
}

}  // namespace
}  // namespace topknot::collective
