// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/random.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

TEST(Inproc, DeliversMessagesBetweenTwoRanksInOrder) {
  run(2, [](Transport& link) {
    for (int i = 0; i < 100; ++i) {
      const Bytes out = bytes_of(std::to_string(i));
      Bytes in;
      const Pending sent = link.send(1 - link.rank(), out);
      link.wait(link.recv(1 - link.rank(), in, 16));
      link.wait(sent);
      EXPECT_EQ(in, bytes_of(std::to_string(i)));
    }
  });
}

TEST(Inproc, DeliversInOrderWhatWasSentBeforeItWasAskedFor) {
  const auto links = make_inproc(2);
  std::vector<Bytes> out;
  std::vector<Pending> sent;
  for (const char* text : {"first", "second", "third"}) out.push_back(bytes_of(text));
  for (const Bytes& bytes : out) sent.push_back(links[0]->send(1, bytes));
  for (const Bytes& bytes : out) {
    Bytes in;
    links[1]->wait(links[1]->recv(0, in, 16));
    EXPECT_EQ(in, bytes);
  }
  for (const Pending message : sent) links[0]->wait(message);
}

TEST(Inproc, LetsBothSidesWaitForTheirSendFirst) {
  run(3, [](Transport& link) {
    const Bytes out(1 << 20, std::byte{7});
    Bytes in;
    const Pending sent = link.send((link.rank() + 1) % 3, out);
    const Pending received = link.recv((link.rank() + 2) % 3, in, 1 << 20);
    link.wait(sent);
    link.wait(received);
    EXPECT_EQ(in, out);
  });
}

TEST(Inproc, KeepsSharedBytesUntilTheyHaveBeenReceived) {
  run(2, [](Transport& link) {
    auto out = std::make_shared<const Bytes>(bytes_of("shared"));
    const std::weak_ptr<const Bytes> watched = out;
    const Pending sent = link.send_shared(1 - link.rank(), std::move(out));
    EXPECT_FALSE(watched.expired());
    Bytes in;
    link.wait(link.recv(1 - link.rank(), in, 16));
    link.wait(sent);
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(in, bytes_of("shared"));
  });
}

TEST(Inproc, LetsARankTalkToItself) {
  run(1, [](Transport& link) {
    const Bytes out = bytes_of("note to self");
    Bytes in;
    const Pending sent = link.send(0, out);
    link.wait(link.recv(0, in, 100));
    link.wait(sent);
    EXPECT_EQ(in, out);
  });
}

TEST(Inproc, KeepsChannelsApart) {
  run(2, [](Transport& link) {
    const auto a = link.channel(1);
    const auto b = link.channel(2);
    const auto nested = a->channel(2);
    const Bytes out[] = {bytes_of("a"), bytes_of("b"), bytes_of("nested")};
    Bytes in[3];
    if (link.rank() == 0) {
      const Pending sent[] = {a->send(1, out[0]), b->send(1, out[1]),
                              nested->send(1, out[2])};
      a->wait(sent[0]);
      b->wait(sent[1]);
      nested->wait(sent[2]);
    } else {
      nested->wait(nested->recv(0, in[2], 10));
      b->wait(b->recv(0, in[1], 10));
      a->wait(a->recv(0, in[0], 10));
      for (int i = 0; i < 3; ++i) EXPECT_EQ(in[i], out[i]);
    }
  });
}

TEST(Inproc, CarriesEmptyMessages) {
  run(2, [](Transport& link) {
    Bytes in = bytes_of("not empty");
    const Pending sent = link.send(1 - link.rank(), {});
    link.wait(link.recv(1 - link.rank(), in, 0));
    link.wait(sent);
    EXPECT_TRUE(in.empty());
  });
}

TEST(Inproc, RefusesAMessageOverTheLimitAndKeepsItsFirstBytes) {
  run(2, [](Transport& link) {
    Bytes out(65, std::byte{7});
    out.back() = std::byte{8};
    if (link.rank() == 0) {
      link.wait(link.send(1, out));
      return;
    }
    Bytes in;
    const Pending received = link.recv(0, in, 64);
    try {
      link.wait(received);
      FAIL() << "took 65 bytes where 64 were allowed";
    } catch (const OverlongError& error) {
      EXPECT_EQ(error.peer(), 0);
      EXPECT_NE(std::string(error.what()).find("65 bytes"), std::string::npos);
    }
    EXPECT_EQ(in, Bytes(64, std::byte{7}));
  });
}

TEST(Inproc, NamesTheRankThatIsSilent) {
  LinkOptions options;
  options.timeout = 0.05;
  const auto errors = run_to_the_end(
      3,
      [](Transport& link) {
        if (link.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (link.rank() != 0) return;
        Bytes in;
        link.wait(link.recv(2, in, 1));
      },
      options);
  ASSERT_TRUE(errors[0]);
  try {
    std::rethrow_exception(errors[0]);
  } catch (const LinkError& error) {
    EXPECT_EQ(error.peer(), 2);
    EXPECT_NE(std::string(error.what()).find("silent"), std::string::npos);
  }
}

TEST(Inproc, TellsAtOnceWhenARankHasLeft) {
  const auto start = std::chrono::steady_clock::now();
  auto links = make_inproc(2);
  std::thread leaver([&] { links[1].reset(); });
  Bytes in;
  EXPECT_THROW(links[0]->wait(links[0]->recv(1, in, 1)), LinkError);
  EXPECT_THROW(links[0]->wait(links[0]->send(1, in)), LinkError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  leaver.join();
}

TEST(Inproc, GivesUpEverythingUnderWayWhenTheChannelFails) {
  auto links = make_inproc(3);
  Bytes in;
  {
    const Bytes gone(100, std::byte{9});
    const Pending never = links[0]->recv(2, in, 1);
    static_cast<void>(links[0]->send(1, gone));
    links[2].reset();
    EXPECT_THROW(links[0]->wait(never), LinkError);
  }
  // The bytes of the send are gone, so nobody may be given them.
  EXPECT_THROW(links[1]->wait(links[1]->recv(0, in, 100)), LinkError);
}

TEST(Inproc, RefusesToWaitTwice) {
  run(1, [](Transport& link) {
    Bytes in;
    const Pending sent = link.send(0, {});
    link.wait(link.recv(0, in, 0));
    link.wait(sent);
    EXPECT_REFUSAL(link.wait(sent), ContractError,
                   "wait() was called twice for one message, or for none.");
  });
}

TEST(Inproc, HasNoAllreduceOfItsOwn) {
  run(2, [](Transport& link) {
    std::vector<float> x = {1, 2};
    EXPECT_FALSE(link.allreduce(x));
    EXPECT_EQ(x, (std::vector<float>{1, 2}));
  });
}

TEST(Inproc, RefusesAJobOfNobody) {
  EXPECT_REFUSAL(make_inproc(0), ConfigError, "A job has at least 1 rank, not 0.");
}

TEST(Inproc, SurvivesAStormOfMessages) {
  run(5, [](Transport& link) {
    core::Random random(42);  // the same on all ranks: who sends how much to whom
    for (int round = 0; round < 200; ++round) {
      std::vector<Bytes> out(5);
      std::vector<Bytes> in(5);
      std::vector<Pending> under_way;
      for (int from = 0; from < 5; ++from)
        for (int to = 0; to < 5; ++to) {
          const std::size_t length = random.below(300);
          if (from == link.rank()) {
            out[to].assign(length, static_cast<std::byte>(from * 5 + to));
            under_way.push_back(link.send(to, out[to]));
          }
          if (to == link.rank()) under_way.push_back(link.recv(from, in[from], length));
        }
      for (const Pending message : under_way) link.wait(message);
      for (int from = 0; from < 5; ++from)
        for (const std::byte b : in[from])
          ASSERT_EQ(b, static_cast<std::byte>(from * 5 + link.rank()));
    }
  });
}

}  // namespace
}  // namespace topknot::testing
