// SPDX-License-Identifier: Apache-2.0
//
// The threads of the c10d transport, over a stand-in for Gloo: in a build without torch, so
// that the sanitizers see all of it. python/tests/test_link.py has the same over Gloo itself.
#include "transports/c10d/c10d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "contract.h"
#include "engine/small_model.h"
#include "topknot/engine.h"
#include "topknot/error.h"
#include "transports/c10d/frame.h"

namespace topknot::testing {
namespace {

using Bytes = std::vector<std::byte>;

/// Runs `rank_main` once a rank, each with its end of a c10d link. Returns what each threw.
std::vector<std::exception_ptr> run_on(const std::shared_ptr<c10d::Net>& net,
                                       const std::function<void(Transport&)>& rank_main,
                                       const LinkOptions& options = {}) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(net->size()));
  for (int rank = 0; rank < net->size(); ++rank)
    c10d::groups()[std::to_string(rank)] =
        std::make_shared<c10d::ProcessGroup>(net, rank);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto link = make_c10d(std::to_string(rank), {}, options);
        rank_main(*link);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  c10d::groups().clear();
  return errors;
}

void run_c10d(int ranks, const std::function<void(Transport&)>& rank_main) {
  for (const std::exception_ptr& error :
       run_on(std::make_shared<c10d::Net>(ranks), rank_main))
    if (error) std::rethrow_exception(error);
}

/// Whom a rank says that it has lost, or -1.
int lost_by(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const LinkError& lost) {
    return lost.peer();
  }
  return -1;
}

Bytes message(int from, std::size_t number, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] =
        static_cast<std::byte>(131 * i + 17 * number + static_cast<std::size_t>(from));
  return bytes;
}

// Frames hold 64 KiB; what is longer has a rest.
const std::vector<std::size_t> kSizes = {0, 1, 1000, 65535, 65536, 65537, 200'000};

TEST(C10d, ManyMessagesUnderWayComeInOrderAndWhole) {
  run_c10d(3, [](Transport& link) {
    std::vector<Bytes> out;
    std::vector<Bytes> in(2 * kSizes.size());
    std::vector<Pending> pending;
    const int next = (link.rank() + 1) % 3;
    const int last = (link.rank() + 2) % 3;
    for (std::size_t i = 0; i < in.size(); ++i)
      out.push_back(message(link.rank(), i, kSizes[i % kSizes.size()]));
    for (const Bytes& one : out) pending.push_back(link.send(next, one));
    for (Bytes& one : in) pending.push_back(link.recv(last, one, 200'000));
    std::ranges::reverse(pending);
    for (const Pending one : pending) link.wait(one);
    for (std::size_t i = 0; i < in.size(); ++i)
      EXPECT_EQ(in[i], message(last, i, kSizes[i % kSizes.size()])) << i;
  });
}

TEST(C10d, ChannelsOfTwoThreadsAreApart) {
  run_c10d(2, [](Transport& link) {
    const auto talk = [&](Transport& channel, std::size_t seed) {
      for (std::size_t i = 0; i < 40; ++i) {
        const Bytes out = message(link.rank(), seed + i, 3000);
        Bytes in;
        const Pending sent = channel.send(1 - link.rank(), out);
        channel.wait(channel.recv(1 - link.rank(), in, 3000));
        channel.wait(sent);
        EXPECT_EQ(in, message(1 - link.rank(), seed + i, 3000));
      }
    };
    const auto one = link.channel(1);
    const auto other = link.channel(2);
    std::thread beside([&] { talk(*one, 1000); });
    talk(*other, 2000);
    beside.join();
  });
}

TEST(C10d, EveryCollectiveKeepsTheLaw) {
  std::mutex mutex;
  run_c10d(3, [&](Transport& link) {
    int id = 0;
    for (const CollectiveEntry& entry : collectives()) {
      const Case one{
          .collective = std::string(entry.name), .n = 1000, .k = 20, .steps = 2};
      const auto channel = link.channel(++id);
      const auto wrong = violation(one, *channel);
      if (!wrong) continue;
      const std::scoped_lock lock(mutex);
      ADD_FAILURE() << one.str(3) << ": " << *wrong;
    }
  });
}

TEST(C10d, AnEnginesThreadExchangesWhileItsRankGoesOn) {
  std::mutex mutex;
  std::vector<std::vector<float>> all;
  run_c10d(3, [&](Transport& link) {
    Engine engine(link, model(), options("knot"));
    for (std::uint64_t number = 0; number < 6; ++number)
      EXPECT_TRUE(step(engine, link.rank(), number).finite);
    const std::scoped_lock lock(mutex);
    all.push_back(means(engine));
  });
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_NE(std::ranges::count(all[0], 0.0F), std::ssize(all[0]));
}

TEST(C10d, AllNameTheRankWhoseConnectionsBreak) {
  const auto net = std::make_shared<c10d::Net>(3);
  const auto errors = run_on(net,
                             [&](Transport& link) {
                               if (link.rank() == 1) {
                                 net->lose(1);
                                 return;
                               }
                               Bytes in;
                               link.wait(link.recv(1, in, 10));
                             },
                             {.timeout = 30});
  EXPECT_EQ(lost_by(errors[0]), 1);
  EXPECT_EQ(lost_by(errors[2]), 1);
}

TEST(C10d, AllNameTheRankThatIsSilentAndNotTheOneThatWaitsForIt) {
  const auto net = std::make_shared<c10d::Net>(3);
  std::atomic<int> left = 2;
  const auto errors =
      run_on(net,
             [&](Transport& link) {
               // 0 waits for 1, which waits for 2, which says nothing until both have given up.
               if (link.rank() == 2) {
                 while (left > 0)
                   std::this_thread::sleep_for(std::chrono::milliseconds(10));
                 return;
               }
               Bytes in;
               try {
                 link.wait(link.recv(link.rank() + 1, in, 10));
               } catch (...) {
                 --left;
                 throw;
               }
             },
             {.timeout = 1});
  EXPECT_EQ(lost_by(errors[0]), 2);
  EXPECT_EQ(lost_by(errors[1]), 2);
}

TEST(C10d, ARankThatLeavesBecauseOfAnotherIsNotNamed) {
  const auto net = std::make_shared<c10d::Net>(3);
  const auto errors =
      run_on(net,
             [&](Transport& link) {
               // 0 waits for 1, which waits for 2.
               if (link.rank() == 2) {
                 std::this_thread::sleep_for(std::chrono::milliseconds(20));
                 return net->lose(2);
               }
               Bytes in;
               try {
                 link.wait(link.recv(link.rank() + 1, in, 10));
               } catch (...) {
                 net->lose(link.rank());
                 throw;
               }
             },
             {.timeout = 30});
  EXPECT_EQ(lost_by(errors[0]), 2);
  EXPECT_EQ(lost_by(errors[1]), 2);
}

int threads_of_this_process() {
  int count = 0;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST(C10d, HasOneThreadHoweverManyRanksThereAre) {
  for (const int ranks : {1, 2, 9, 64}) {
    std::atomic<int> arrived = 0;
    std::atomic<int> counted = 0;
    std::atomic<int> threads = 0;
    const int before = threads_of_this_process();
    run_c10d(ranks, [&](Transport& link) {
      ++arrived;
      while (arrived < ranks) std::this_thread::yield();
      if (link.rank() == 0) threads = threads_of_this_process() - before;
      ++counted;
      while (counted < ranks) std::this_thread::yield();
    });
    EXPECT_EQ(threads, 2 * ranks) << "the rank's own and the poller, for each";
  }
}

// ---- frames

std::string fault_in(const Bytes& memory) {
  const auto read = c10d_link::read_frame(memory);
  const auto* fault = std::get_if<std::string>(&read);
  return fault ? *fault : "none";
}

TEST(Frame, IsReadAsItWasMade) {
  for (const std::size_t size : kSizes) {
    const Bytes whole = message(1, 2, size);
    const std::size_t eager = std::min(size, c10d_link::kEager);
    const c10d_link::Header header{
        .channel = 7, .length = size, .rest_tag = size > eager ? 9U : 0U};
    Bytes memory = c10d_link::make_frame(header, std::span(whole).first(eager));
    memory.resize(c10d_link::kMostFrameBytes);
    const auto read = c10d_link::read_frame(memory);
    const auto* frame = std::get_if<c10d_link::Frame>(&read);
    ASSERT_NE(frame, nullptr) << fault_in(memory);
    EXPECT_EQ(frame->header.channel, 7U);
    EXPECT_EQ(frame->header.length, size);
    EXPECT_TRUE(std::ranges::equal(frame->bytes, std::span(whole).first(eager)));
  }
}

TEST(Frame, IsRefusedForEveryBitOfItsHeaderThatTurned) {
  const Bytes frame = c10d_link::make_frame({.length = 3}, Bytes(3));
  for (std::size_t bit = 0; bit < 8 * sizeof(c10d_link::Header); ++bit) {
    Bytes turned = frame;
    turned[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(fault_in(turned), "a frame whose header was damaged on the way");
  }
}

TEST(Frame, IsRefusedWhereItsHeaderCannotBe) {
  using c10d_link::make_frame;
  using enum c10d_link::Header::Kind;
  EXPECT_EQ(fault_in(Bytes(31)), "a frame without a header");
  EXPECT_EQ(fault_in(make_frame({.length = 70'000}, {})),
            "a frame of a message of 70000 bytes with the tag 0 for its rest");
  EXPECT_EQ(fault_in(make_frame({.length = 7, .rest_tag = 1}, Bytes(7))),
            "a frame of a message of 7 bytes with the tag 1 for its rest");
  EXPECT_EQ(fault_in(make_frame({.length = 70'000, .rest_tag = 4097}, Bytes(70'000))),
            "a frame with the tag 4097, which is above 4096");
  EXPECT_EQ(fault_in(make_frame({.length = 4097, .kind = control}, Bytes(4097))),
            "a frame of a control message of 4097 bytes");
  EXPECT_EQ(fault_in(make_frame({.kind = closing, .rest_tag = 1}, {})),
            "a frame of a short message that has a rest");
  EXPECT_EQ(fault_in(make_frame({.kind = static_cast<c10d_link::Header::Kind>(3)}, {})),
            "a frame of the unknown kind 3");
  EXPECT_EQ(fault_in(make_frame({.length = 8}, Bytes(7))),
            "a frame that was cut: it has fewer than the 8 bytes that were announced");
}

TEST(Frame, HasArrivedWithItsLastByte) {
  for (const std::size_t size : {0, 1, 7, 8, 65536}) {
    const Bytes frame = c10d_link::make_frame({.length = size}, Bytes(size));
    Bytes memory(c10d_link::kMostFrameBytes);
    for (std::size_t i = 0; i < frame.size(); ++i) {
      if (i < 50 || i + 2 > frame.size()) {
        EXPECT_FALSE(c10d_link::frame_has_arrived(memory)) << i << " of " << frame.size();
      }
      memory[i] = frame[i];
    }
    EXPECT_TRUE(c10d_link::frame_has_arrived(memory)) << frame.size();
    c10d_link::clear_frame(memory);
    EXPECT_EQ(std::ranges::count(memory, std::byte{}), std::ssize(memory));
  }
}

TEST(C10d, NamesAPeerThatSendsFarMoreThanIsAskedFor) {
  const auto errors = run_on(std::make_shared<c10d::Net>(2),
                             [](Transport& link) {
                               const auto other = link.channel(1);
                               if (link.rank() == 0) {
                                 Bytes never;
                                 link.wait(link.recv(1, never, 10));
                                 return;
                               }
                               for (int i = 0; i < 5000; ++i)
                                 other->wait(other->send(0, Bytes(1)));
                             },
                             {.timeout = 5});
  for (const auto& error : errors) {
    try {
      std::rethrow_exception(error);
    } catch (const LinkError& lost) {
      EXPECT_STREQ(lost.what(),
                   "rank 1 sent rank 0 4096 messages before they were asked for");
    }
  }
}

}  // namespace
}  // namespace topknot::testing
