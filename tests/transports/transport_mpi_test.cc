// SPDX-License-Identifier: Apache-2.0
//
// Run by CTest with 1 to 4 ranks, and at the thread levels that --level=N asks MPI for.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "mpi_main.h"
#include "refusal.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace {

/// The calls that the transport makes, as MPI's profiling interface sees them.
struct Spy {
  std::atomic<int> inside = 0;         // threads that are in a call now
  std::atomic<bool> together = false;  // two of them were at once
  int freed = 0;                       // communicators
  bool send_fails = false;
  bool linger = false;  // stay long enough to meet others
} spy;

struct Visit {
  Visit() {
    if (++spy.inside > 1) spy.together = true;
    if (spy.linger) std::this_thread::yield();
  }
  ~Visit() { --spy.inside; }
};

}  // namespace

int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request* request) {
  const Visit visit;
  if (spy.send_fails) return MPI_ERR_INTERN;
  return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int* here, MPI_Message* message,
                MPI_Status* status) {
  const Visit visit;
  return PMPI_Improbe(from, tag, comm, here, message, status);
}

int MPI_Test(MPI_Request* request, int* completed, MPI_Status* status) {
  const Visit visit;
  return PMPI_Test(request, completed, status);
}

int MPI_Comm_free(MPI_Comm* comm) {
  ++spy.freed;
  return PMPI_Comm_free(comm);
}

namespace topknot {
namespace {

using test::world;
using Bytes = std::vector<std::byte>;

constexpr double kTimeout = 30;
constexpr std::size_t kNoLimit = std::size_t{1} << 40;

/// A channel for one test.
std::unique_ptr<Transport> fresh(std::uint64_t max_chunk = std::uint64_t{1} << 30) {
  return make_mpi({.timeout = kTimeout, .max_chunk = max_chunk});
}

/// Bytes that tell where they came from and which message they are.
Bytes pattern(int from, int to, int number, std::size_t size) {
  std::minstd_rand random(static_cast<unsigned>(from * 1009 + to * 31 + number + 1));
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

int next(const Transport& link) { return (link.rank() + 1) % link.size(); }
int previous(const Transport& link) {
  return (link.rank() + link.size() - 1) % link.size();
}

/// What `call` threw, or "nothing" in words.
template <typename E, typename F>
std::string sentence_of(F call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(Mpi, KnowsThatItsRanksShareThisHost) {
  const auto parent = fresh();
  const auto channel = parent->channel(1);
  const Transport* const links[] = {&world(), channel.get()};
  for (const Transport* link : links)
    for (int rank = 0; rank < link->size(); ++rank)
      EXPECT_EQ(link->node_of(rank), link->node_of(0));
}

TEST(Mpi, PassesAMessageRoundTheRing) {
  const auto link = fresh();
  Bytes token = pattern(0, 0, 0, 1000);
  if (link->rank() == 0) {
    Bytes back;
    const Pending send = link->send(next(*link), token);
    link->wait(link->recv(previous(*link), back, 1000));
    link->wait(send);
    EXPECT_EQ(back, token);
  } else {
    Bytes passed;
    link->wait(link->recv(previous(*link), passed, 1000));
    EXPECT_EQ(passed, token);
    link->wait(link->send(next(*link), passed));
  }
}

TEST(Mpi, LetsTwoRanksWaitForLargeSendsBeforeTheirReceives) {
  const auto link = fresh();
  const int me = link->rank();
  const int peer = (me ^ 1) < link->size() ? me ^ 1 : me;
  constexpr std::size_t kSize = std::size_t{8} << 20;
  const Bytes mine = pattern(me, peer, 0, kSize);
  Bytes theirs;
  const Pending send = link->send(peer, mine);
  const Pending receive = link->recv(peer, theirs, kSize);
  link->wait(send);
  link->wait(receive);
  EXPECT_TRUE(theirs == pattern(peer, me, 0, kSize));
}

TEST(Mpi, LetsALargeSendMoveWhileAnotherReceiveIsWaitedFor) {
  const auto link = fresh();
  constexpr std::size_t kSize = std::size_t{2} << 20;
  const Bytes large = pattern(0, 1, 0, kSize);
  const Bytes small = pattern(1, 0, 1, 8);
  Bytes a;
  Bytes b;
  if (link->size() < 2) GTEST_SKIP() << "needs two ranks";
  if (link->rank() == 0) {  // rank 1 answers only when it has the large message
    const Pending send = link->send(1, large);
    link->wait(link->recv(1, a, 8));
    EXPECT_EQ(a, small);
    link->wait(send);
  } else if (link->rank() == 1) {
    link->wait(link->recv(0, b, kSize));
    EXPECT_TRUE(b == large);
    link->wait(link->send(0, small));
  }
}

TEST(Mpi, KeepsTheOrderOfManyMessagesOnEachOfTwoChannels) {
  const auto first = fresh();
  const auto second = first->channel(7);
  constexpr int kMessages = 300;
  const int me = first->rank();
  const int to = next(*first);
  const int from = previous(*first);
  const auto size = [](int number) {
    return static_cast<std::size_t>(number * 37 % 101);
  };
  std::vector<Bytes> sent;
  std::vector<Bytes> got(kMessages);
  for (int i = 0; i < kMessages; ++i) sent.push_back(pattern(me, to, i, size(i)));
  std::vector<Pending> sends;
  std::vector<Pending> receives;
  for (int i = 0; i < kMessages; ++i) {  // every third message on the second channel
    Transport& link = i % 3 == 0 ? *second : *first;
    sends.push_back(link.send(to, sent[i]));
    receives.push_back(link.recv(from, got[i], 101));
  }
  for (int i = kMessages - 1; i >= 0; --i) {
    Transport& link = i % 3 == 0 ? *second : *first;
    link.wait(receives[i]);
    link.wait(sends[i]);
    EXPECT_EQ(got[i], pattern(from, me, i, size(i))) << "message " << i;
  }
}

TEST(Mpi, CarriesEverySizeAroundTheEndOfAPiece) {
  for (const std::uint64_t max_chunk : {64, 7, 1, 0}) {  // 0 is taken for 1
    const auto link = fresh(max_chunk);
    const int me = link->rank();
    const int from = previous(*link);
    for (const std::size_t size : {0, 1, 6, 7, 8, 14, 63, 64, 65, 127, 128, 129, 640}) {
      const Bytes mine = pattern(me, next(*link), 0, size);
      Bytes theirs(3);  // what is in it does not matter
      const Pending receive = link->recv(from, theirs, size);
      const Pending send = link->send(next(*link), mine);
      link->wait(receive);
      link->wait(send);
      EXPECT_EQ(theirs, pattern(from, me, 0, size)) << size << " by " << max_chunk;
    }
  }
}

TEST(Mpi, TakesReceivesFromOneRankInTheOrderTheyWerePosted) {
  const auto link = fresh(64);
  const Bytes one = pattern(link->rank(), 0, 1, 200);
  const Bytes two = pattern(link->rank(), 0, 2, 64);
  Bytes first;
  Bytes second;
  const Pending receive_one = link->recv(previous(*link), first, 200);
  const Pending receive_two = link->recv(previous(*link), second, 64);
  const Pending send_one = link->send(next(*link), one);
  const Pending send_two = link->send(next(*link), two);
  link->wait(receive_two);
  link->wait(receive_one);
  link->wait(send_two);
  link->wait(send_one);
  EXPECT_EQ(first, pattern(previous(*link), 0, 1, 200));
  EXPECT_EQ(second, pattern(previous(*link), 0, 2, 64));
}

TEST(Mpi, CarriesMessagesToOneself) {
  const auto link = fresh(64);
  for (const std::size_t size : {std::size_t{0}, std::size_t{64}, std::size_t{1} << 20}) {
    const Bytes mine = pattern(link->rank(), link->rank(), 0, size);
    Bytes back;
    const Pending send = link->send(link->rank(), mine);
    link->wait(link->recv(link->rank(), back, size));
    link->wait(send);
    EXPECT_TRUE(back == mine) << size;
  }
}

TEST(Mpi, ReceivesIntoTheMemoryThatTheVectorHad) {
  const auto link = fresh();
  const Bytes mine(4096, std::byte{7});
  Bytes into(4096);
  const std::byte* memory = into.data();
  const Pending receive = link->recv(previous(*link), into, 4096);
  const Pending send = link->send(next(*link), mine);
  link->wait(receive);
  link->wait(send);
  EXPECT_EQ(into, mine);
  EXPECT_EQ(into.data(), memory);
}

// All ranks draw the same plan, so each knows what it has to get. Messages are started
// and waited for in an order of each rank's own; only between two ranks the order is
// given.
TEST(Mpi, CarriesAnyPlanOfMessagesBetweenAllPairs) {
  struct Planned {
    int from, to, number;
    std::size_t size;
  };
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 shared(seed);
    const auto link = fresh(seed % 4 == 0 ? 1 << 30 : 1 + shared() % 70);
    std::vector<Planned> plan;
    const int messages = static_cast<int>(20 * link->size());
    for (int i = 0; i < messages; ++i) {
      const int from = static_cast<int>(shared() % link->size());
      const int to = static_cast<int>(shared() % link->size());
      plan.push_back({from, to, i, shared() % (seed % 4 == 0 ? 200'000 : 300)});
    }
    std::vector<Bytes> sent(plan.size());
    std::vector<Bytes> got(plan.size());
    std::vector<Pending> open;
    for (const Planned& p : plan) {
      if (p.from == link->rank()) {
        sent[p.number] = pattern(p.from, p.to, p.number, p.size);
        open.push_back(link->send(p.to, sent[p.number]));
      }
      if (p.to == link->rank()) open.push_back(link->recv(p.from, got[p.number], p.size));
    }
    std::mt19937 own(seed * 64 + static_cast<unsigned>(link->rank()));
    std::shuffle(open.begin(), open.end(), own);
    for (const Pending message : open) link->wait(message);
    for (const Planned& p : plan) {
      if (p.to != link->rank()) continue;
      EXPECT_TRUE(got[p.number] == pattern(p.from, p.to, p.number, p.size)) << seed;
    }
  }
}

TEST(Mpi, RefusesMoreThanTheLimitAndHasFailedThen) {
  struct Case {
    std::size_t size, limit;
    const char* said;
  };
  for (const Case& c :
       {Case{1, 0, "of 1 bytes"}, Case{63, 62, "of 63 bytes"},
        Case{65, 64, "of 65 bytes"}, Case{130, 129, "of 130 bytes"},
        Case{130, 100, "of at least 128 bytes"}, Case{10, 3, "of 10 bytes"}}) {
    const auto link = fresh(64);
    const int from = previous(*link);
    const Bytes mine = pattern(link->rank(), 0, 0, c.size);
    Bytes theirs;
    const Pending send = link->send(next(*link), mine);
    const Pending receive = link->recv(from, theirs, c.limit);
    const std::string sentence = sentence_of<OverlongError>([&] { link->wait(receive); });
    EXPECT_TRUE(contains(sentence, "rank " + std::to_string(from) + " sent")) << sentence;
    EXPECT_TRUE(contains(sentence, c.said)) << sentence;
    EXPECT_TRUE(contains(sentence, "at most " + std::to_string(c.limit))) << sentence;
    Bytes first = pattern(from, 0, 0, c.size);
    first.resize(c.limit);
    EXPECT_EQ(theirs, first);

    Bytes more;
    std::vector<float> x(1);
    EXPECT_EQ(sentence_of<LinkError>([&] { link->wait(send); }), sentence);
    EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->send(from, mine); }), sentence);
    EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->recv(from, more, 9); }), sentence);
    EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->allreduce(x); }), sentence);
    EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->channel(1); }), sentence);
  }
  Bytes received;  // other channels have not failed
  const Pending send = world().send(next(world()), {});
  world().wait(world().recv(previous(world()), received, 0));
  world().wait(send);
}

TEST(Mpi, HasTheFirstBytesOfALargeMessageThatIsTooLong) {
  const auto link = fresh();
  const auto mine =
      std::make_shared<const Bytes>(pattern(link->rank(), 0, 0, std::size_t{8} << 20));
  Bytes theirs;
  (void)link->send_shared(next(*link), mine);
  const Pending receive = link->recv(previous(*link), theirs, 1000);
  EXPECT_THROW(link->wait(receive), OverlongError);
  EXPECT_EQ(theirs, pattern(previous(*link), 0, 0, 1000));
}

TEST(Mpi, TellsAllRanksOfAFailureThatOneHasFound) {
  const auto link = fresh();
  const auto other = link->channel(1);
  if (link->rank() == 0) link->fail(DisagreementError(0, "they disagree"));
  Bytes never;
  EXPECT_EQ(sentence_of<DisagreementError>(
                [&] { other->wait(other->recv(previous(*other), never, 9)); }),
            "they disagree");
}

TEST(Mpi, KeepsWhatIsBeingSentUntilTheProcessEnds) {
  std::weak_ptr<const Bytes> memory;
  {
    const auto link = fresh();
    auto large = std::make_shared<const Bytes>(4 << 20, std::byte{1});
    memory = large;
    (void)link->send_shared(next(*link), std::move(large));  // nobody takes it
    link->abandon();
    EXPECT_THROW((void)link->send(link->rank(), {}), LinkError);
  }
  EXPECT_FALSE(memory.expired());
}

TEST(Mpi, LetsGoOfWhatHasBeenSent) {
  const auto link = fresh();
  auto large = std::make_shared<const Bytes>(4 << 20, std::byte{1});
  const std::weak_ptr<const Bytes> memory = large;
  Bytes theirs;
  const Pending send = link->send_shared(next(*link), std::move(large));
  link->wait(link->recv(previous(*link), theirs, 4 << 20));
  EXPECT_FALSE(memory.expired());
  link->wait(send);
  EXPECT_TRUE(memory.expired());
}

TEST(Mpi, CopiesAShortMessageSoThatItsMemoryMayGo) {
  const auto link = fresh();
  Pending send{};
  {
    Bytes mine = pattern(link->rank(), 0, 0, 4000);
    send = link->send(next(*link), mine);
    std::fill(mine.begin(), mine.end(), std::byte{0});
  }
  Bytes theirs;
  link->wait(link->recv(previous(*link), theirs, 4000));
  link->wait(send);
  EXPECT_EQ(theirs, pattern(previous(*link), 0, 0, 4000));
}

TEST(Mpi, AcceptsExactlyTheLimit) {
  for (const std::size_t size : {0, 63, 64, 65, 128}) {
    const auto link = fresh(64);
    const Bytes mine(size, std::byte{1});
    Bytes theirs;
    const Pending send = link->send(next(*link), mine);
    link->wait(link->recv(previous(*link), theirs, size));
    link->wait(send);
    EXPECT_EQ(theirs, mine);
  }
}

TEST(Mpi, AddsUpLikeTheNaiveSumInAnyPieces) {
  for (const std::uint64_t max_chunk : {1, 64, 1 << 30}) {
    const auto link = fresh(max_chunk);
    for (const std::size_t n : {0, 1, 3, 16, 17, 1000}) {
      std::vector<float> x(n);
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {  // small integers: exact in any order
        const auto value = [i](int rank) {
          return static_cast<float>((i * 7 + rank) % 64);
        };
        x[i] = value(link->rank());
        for (int rank = 0; rank < link->size(); ++rank) expected[i] += value(rank);
      }
      EXPECT_TRUE(link->allreduce(x));
      EXPECT_EQ(x, expected);
    }
  }
}

TEST(Mpi, MakesAChannelWhileMessagesOfItsParentAreUnderWay) {
  const auto parent = fresh();
  const Bytes mine = pattern(parent->rank(), 0, 0, 1 << 20);
  Bytes theirs;
  const Pending send = parent->send(next(*parent), mine);
  const bool early = parent->rank() % 2 == 0;
  Pending receive{};
  if (early) receive = parent->recv(previous(*parent), theirs, 1 << 20);
  const auto child = parent->channel(3);
  if (!early) receive = parent->recv(previous(*parent), theirs, 1 << 20);
  Bytes on_child;
  const Pending hello = child->send(next(*child), Bytes(5));
  child->wait(child->recv(previous(*child), on_child, 5));
  child->wait(hello);
  parent->wait(receive);
  parent->wait(send);
  EXPECT_TRUE(theirs == pattern(previous(*parent), 0, 0, 1 << 20));
}

TEST(Mpi, ServesTwoThreadsOnTwoChannelsAtOnce) {
  const auto first = fresh(512);
  const auto second = first->channel(1);
  const auto talk = [](Transport& link) {
    for (int i = 0; i < 300; ++i) {
      const Bytes mine = pattern(link.rank(), 0, i, static_cast<std::size_t>(i * 5));
      Bytes theirs;
      const Pending send = link.send(next(link), mine);
      link.wait(link.recv(previous(link), theirs, 1500));
      link.wait(send);
      ASSERT_EQ(theirs, pattern(previous(link), 0, i, static_cast<std::size_t>(i * 5)));
    }
  };
  spy.together = false;
  spy.linger = true;
  std::thread other([&] { talk(*second); });
  talk(*first);
  other.join();
  spy.linger = false;
  int level = 0;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    EXPECT_FALSE(spy.together);
  }
}

TEST(Mpi, PassesOnWhatMpiSaysOfAFailure) {
  const auto link = fresh();
  spy.send_fails = true;
  const std::string sentence =
      sentence_of<LinkError>([&] { (void)link->send(next(*link), {}); });
  spy.send_fails = false;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(MPI_ERR_INTERN, text, &length);
  EXPECT_EQ(sentence, "MPI failed on channel 0 at rank " + std::to_string(next(*link)) +
                          ": " + text);
  EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->send(link->rank(), {}); }),
            sentence);
}

TEST(Mpi, FreesACommunicatorUnlessMessagesAreLeftInIt) {
  const Bytes large(4 << 20);  // outlives the channel: MPI may still look at it
  Bytes never;
  auto link = fresh();
  (void)link->recv(previous(*link), never, kNoLimit);  // nothing comes
  int before = spy.freed;
  link.reset();
  EXPECT_EQ(spy.freed, before + 2);  // its own and that of control messages
  link = fresh();
  (void)link->send(next(*link), large);  // nobody takes it
  before = spy.freed;
  link.reset();
  EXPECT_EQ(spy.freed, before + 1);
}

TEST(Mpi, NoticesRanksThatAskForDifferentChannels) {
  const auto link = fresh();
  if (link->size() < 2) GTEST_SKIP() << "needs two ranks";
  const std::string sentence = sentence_of<DisagreementError>(
      [&] { (void)link->channel(link->rank() == 0 ? 4 : 5); });
  const std::string expected =
      link->rank() == 0
          ? "channel is 4 on rank 0 but 5 on rank 1"
          : "channel is 5 on rank " + std::to_string(link->rank()) + " but 4 on rank 0";
  EXPECT_EQ(sentence, expected);
  EXPECT_EQ(sentence_of<LinkError>([&] { (void)link->channel(4); }), expected);
}

TEST(Mpi, NoticesRanksThatCutMessagesDifferently) {
  if (world().size() < 2) GTEST_SKIP() << "needs two ranks";
  const std::string sentence =
      sentence_of<DisagreementError>([&] { (void)fresh(world().rank() == 1 ? 7 : 64); });
  EXPECT_TRUE(contains(sentence, "max_chunk is ")) << sentence;
}

TEST(Mpi, RefusesWhatBreaksTheContract) {
  const auto link = fresh();
  Bytes into;
  EXPECT_THROW((void)link->send(link->size(), {}), ContractError);
  EXPECT_THROW((void)link->recv(-1, into, 0), ContractError);
  EXPECT_THROW(link->wait(Pending{77}), ContractError);
  const Pending send = link->send(link->rank(), {});
  const Pending receive = link->recv(link->rank(), into, 0);
  link->wait(send);
  link->wait(receive);
  EXPECT_THROW(link->wait(send), ContractError);
  const Pending again = link->send(link->rank(), {});  // may use the same slot
  EXPECT_THROW(link->wait(receive), ContractError);
  EXPECT_THROW(link->wait(send), ContractError);
  link->wait(link->recv(link->rank(), into, 0));
  link->wait(again);
}

TEST(Mpi, RefusesATimeoutThatIsNone) {
  EXPECT_REFUSAL((void)make_mpi({.timeout = 0}), ConfigError,
                 "the timeout must be more than 0 seconds, not 0.000000");
  EXPECT_REFUSAL((void)make_mpi({.timeout = -1}), ConfigError,
                 "the timeout must be more than 0 seconds, not -1.000000");
  EXPECT_REFUSAL((void)make_mpi({.timeout = std::nan("")}), ConfigError,
                 "the timeout must be more than 0 seconds, not nan");
}

}  // namespace
}  // namespace topknot

// Tests leave channels that have failed, after which the library would not end MPI. So MPI is
// started and ended here, as in programs that use MPI themselves.
int main(int argc, char** argv) {
  int level = MPI_THREAD_MULTIPLE;
  for (int i = 1; i < argc; ++i) {
    std::sscanf(argv[i], "--level=%d", &level);
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, level, &provided);
  const bool too_low = provided < MPI_THREAD_SERIALIZED;
  int status = 1;
  try {
    const auto link = topknot::make_mpi({.timeout = topknot::kTimeout});
    if (!too_low) status = topknot::test::run_all_tests(argc, argv, *link);
  } catch (const topknot::ConfigError& error) {
    std::printf("%s\n", error.what());
    if (too_low) status = 0;
  }
  MPI_Finalize();
  return status;
}
