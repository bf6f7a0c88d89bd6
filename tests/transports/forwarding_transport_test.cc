// SPDX-License-Identifier: Apache-2.0
#include "transports/forwarding_transport.h"

#include <gtest/gtest.h>

#include <string>

#include "topknot/error.h"

namespace topknot {
namespace {

using Calls = std::vector<std::string>;

/// Writes down every call and answers with numbers of its own.
class Noted final : public Transport {
 public:
  explicit Noted(Calls& calls) : calls_(calls) {}

  int rank() const noexcept override { return note("rank"), 3; }
  int size() const noexcept override { return note("size"), 7; }
  Pending send(int to, std::span<const std::byte> bytes) override {
    note("send " + std::to_string(to) + " " + std::to_string(bytes.size()));
    return Pending{11};
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    note("send_shared " + std::to_string(to) + " " + std::to_string(bytes->size()));
    return Pending{12};
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    note("recv " + std::to_string(from) + " " + std::to_string(limit));
    into.resize(limit);
    return Pending{13};
  }
  void wait(Pending message) override {
    note("wait " + std::to_string(static_cast<std::uint64_t>(message)));
  }
  void fail(const LinkError& cause) noexcept override {
    note("fail " + std::to_string(cause.peer()));
  }
  void abandon() noexcept override { note("abandon"); }
  void allow(double seconds) override {
    note("allow " + std::to_string(static_cast<int>(seconds)));
  }
  bool allreduce(std::span<float> x) override {
    note("allreduce " + std::to_string(x.size()));
    return true;
  }
  void spent(Phase phase, double seconds) noexcept override {
    EXPECT_EQ(seconds, 1.5);
    note("spent " + std::to_string(static_cast<int>(phase)));
  }
  double now() const noexcept override { return note("now"), 2.5; }
  int node_of(int rank) const noexcept override {
    return note("node_of " + std::to_string(rank)), 42;
  }
  std::unique_ptr<Transport> channel(int id) override {
    note("channel " + std::to_string(id));
    return std::make_unique<Noted>(calls_);
  }

 private:
  void note(const std::string& call) const { calls_.push_back(call); }

  Calls& calls_;
};

/// Changes nothing; writes down what its hooks are called with.
class Plain final : public ForwardingTransport {
 public:
  Plain(std::unique_ptr<Transport> link, Calls& hooks)
      : ForwardingTransport(std::move(link)), hooks_(hooks) {}
  Plain(Transport& link, Calls& hooks) : ForwardingTransport(link), hooks_(hooks) {}

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    hooks_.push_back("wrap");
    return std::make_unique<Plain>(std::move(channel), hooks_);
  }
  void on_sent(int to, std::span<const std::byte> bytes) override {
    hooks_.push_back("sent " + std::to_string(to) + " " + std::to_string(bytes.size()));
  }

  Calls& hooks_;
};

/// Calls every virtual function and checks what comes back.
void call_all(Transport& link) {
  const std::vector<std::byte> bytes(9);
  std::vector<std::byte> into;
  std::vector<float> x(4);
  EXPECT_EQ(link.rank(), 3);
  EXPECT_EQ(link.size(), 7);
  EXPECT_EQ(link.send(1, bytes), Pending{11});
  EXPECT_EQ(link.send_shared(2, std::make_shared<const std::vector<std::byte>>(5)),
            Pending{12});
  EXPECT_EQ(link.recv(4, into, 6), Pending{13});
  EXPECT_EQ(into.size(), 6u);
  link.wait(Pending{13});
  link.fail(LinkError(5, "rank 5 has left"));
  link.abandon();
  link.allow(7);
  EXPECT_TRUE(link.allreduce(x));
  link.spent(Phase::decode, 1.5);
  EXPECT_EQ(link.now(), 2.5);
  EXPECT_EQ(link.node_of(6), 42);
}

const Calls kAll = {"rank",    "size",   "send 1 9", "send_shared 2 5", "recv 4 6",
                    "wait 13", "fail 5", "abandon",  "allow 7",         "allreduce 4",
                    "spent 3", "now",    "node_of 6"};

TEST(ForwardingTransport, ForwardsEveryCall) {
  Calls calls;
  Calls hooks;
  Noted noted(calls);
  Plain borrowed(noted, hooks);
  call_all(borrowed);
  EXPECT_EQ(calls, kAll);
  EXPECT_EQ(hooks, (Calls{"sent 1 9", "sent 2 5"}));
}

TEST(ForwardingTransport, WrapsFurtherChannels) {
  Calls calls;
  Calls hooks;
  Plain owner(std::make_unique<Noted>(calls), hooks);
  const auto child = owner.channel(8);
  EXPECT_EQ(calls, Calls{"channel 8"});
  EXPECT_EQ(hooks, Calls{"wrap"});
  calls.clear();
  call_all(*child);
  EXPECT_EQ(calls, kAll);
  EXPECT_EQ(hooks, (Calls{"wrap", "sent 1 9", "sent 2 5"}));
}

}  // namespace
}  // namespace topknot
