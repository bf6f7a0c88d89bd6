// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

/// The calls that the channel below has had, and how it behaves.
struct Log {
  std::vector<std::string> calls;
  double clock = 100;
  double wait_takes = 0;
  bool wait_fails = false;
  bool has_allreduce = true;
};

/// Rank 1 of `size`; sends nothing.
class Fake final : public Transport {
 public:
  Fake(int size, Log& log, std::string name = "") : size_(size), log_(log), name_(name) {}

  int rank() const noexcept override { return 1 % size_; }
  int size() const noexcept override { return size_; }
  Pending send(int to, std::span<const std::byte> bytes) override {
    if (to >= size_) throw ContractError("no such rank");
    note("send " + std::to_string(to) + " " + std::to_string(bytes.size()));
    return Pending{log_.calls.size()};
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    into.resize(limit);
    note("recv " + std::to_string(from) + " " + std::to_string(limit));
    return Pending{log_.calls.size()};
  }
  void wait(Pending message) override {
    note("wait " + std::to_string(static_cast<std::uint64_t>(message)));
    log_.clock += log_.wait_takes;
    if (log_.wait_fails) throw LinkError(2, "rank 2 has been silent");
  }
  bool allreduce(std::span<float> x) override {
    note("allreduce " + std::to_string(x.size()));
    if (log_.has_allreduce) std::fill(x.begin(), x.end(), 5.0f);
    return log_.has_allreduce;
  }
  double now() const noexcept override { return log_.clock; }
  int node_of(int rank) const noexcept override { return rank / 2; }
  std::unique_ptr<Transport> channel(int id) override {
    return std::make_unique<Fake>(size_, log_, name_ + std::to_string(id) + ": ");
  }

 private:
  void note(const std::string& call) { log_.calls.push_back(name_ + call); }

  int size_;
  Log& log_;
  std::string name_;
};

using Counts = std::vector<std::uint64_t>;

struct Metered : testing::Test {
  std::unique_ptr<Transport> make(int size) {
    return make_metered(std::make_unique<Fake>(size, log), traffic);
  }
  Log log;
  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
};

TEST_F(Metered, HasOneZeroPerRankBeforeAnythingIsSent) {
  const auto link = make(4);
  EXPECT_EQ(traffic->bytes_to, Counts(4));
  EXPECT_EQ(traffic->messages_to, Counts(4));
  EXPECT_EQ(traffic->bytes(), 0u);
  EXPECT_EQ(traffic->messages(), 0u);
}

TEST_F(Metered, ForwardsEverything) {
  const auto link = make(4);
  const std::array<std::byte, 9> bytes{};
  std::vector<std::byte> into;
  EXPECT_EQ(link->rank(), 1);
  EXPECT_EQ(link->size(), 4);
  EXPECT_EQ(link->now(), 100);
  EXPECT_EQ(link->node_of(3), 1);
  EXPECT_EQ(link->send(2, bytes), Pending{1});
  EXPECT_EQ(link->recv(3, into, 5), Pending{2});
  EXPECT_EQ(into.size(), 5u);
  link->wait(Pending{2});
  EXPECT_EQ(log.calls, (std::vector<std::string>{"send 2 9", "recv 3 5", "wait 2"}));
}

TEST_F(Metered, CountsBytesAndMessagesByReceiver) {
  const auto link = make(4);
  const std::array<std::byte, 100> bytes{};
  (void)link->send(0, std::span(bytes).first(10));
  (void)link->send(3, std::span(bytes).first(100));
  (void)link->send(3, {});
  (void)link->send(3, std::span(bytes).first(7));
  EXPECT_EQ(traffic->bytes_to, (Counts{10, 0, 0, 107}));
  EXPECT_EQ(traffic->messages_to, (Counts{1, 0, 0, 3}));
  EXPECT_EQ(traffic->bytes(), 117u);
  EXPECT_EQ(traffic->messages(), 4u);
}

TEST_F(Metered, DoesNotCountWhatIsReceivedNorWhatCouldNotBeSent) {
  const auto link = make(4);
  const std::array<std::byte, 10> bytes{};
  std::vector<std::byte> into;
  (void)link->recv(0, into, 10);
  EXPECT_THROW((void)link->send(4, bytes), ContractError);
  EXPECT_EQ(traffic->bytes(), 0u);
  EXPECT_EQ(traffic->messages(), 0u);
}

TEST_F(Metered, KnowsForWhomItWaited) {
  const auto link = make(4);
  const std::array<std::byte, 3> bytes{};
  std::vector<std::byte> into;
  const Pending sent = link->send(3, bytes);
  const Pending received = link->recv(0, into, 10);
  log.wait_takes = 0.25;
  link->wait(received);
  log.wait_takes = 0.5;
  link->wait(sent);
  EXPECT_EQ(traffic->wait_seconds_for, (std::vector<double>{0.25, 0, 0, 0.5}));
  EXPECT_EQ(traffic->wait_seconds, 0.75);
}

TEST_F(Metered, KeepsSpansWhereItIsAskedTo) {
  const auto link = make(4);
  std::vector<std::byte> into;
  link->spent(Phase::encode, 0.125);
  EXPECT_TRUE(traffic->spans.empty());
  traffic->keeps_spans = true;
  link->spent(Phase::encode, 0.125);
  log.wait_takes = 0.25;
  link->wait(link->recv(2, into, 10));
  link->spent(Phase::decode, 0.0625);
  EXPECT_EQ(traffic->encode_seconds, 0.25);
  EXPECT_EQ(traffic->decode_seconds, 0.0625);
  ASSERT_EQ(traffic->spans.size(), 3u);
  EXPECT_EQ(traffic->spans[0].phase, Phase::encode);
  EXPECT_EQ(traffic->spans[0].start, 100 - 0.125);
  EXPECT_EQ(traffic->spans[1].phase, Phase::wait);
  EXPECT_EQ(traffic->spans[1].peer, 2);
  EXPECT_EQ(traffic->spans[1].start, 100);
  EXPECT_EQ(traffic->spans[1].seconds, 0.25);
  EXPECT_EQ(traffic->spans[2].phase, Phase::decode);
}

TEST_F(Metered, AddsUpTheTimeInsideWait) {
  const auto link = make(4);
  log.wait_takes = 0.25;
  link->wait(Pending{1});
  log.clock += 10;  // time outside
  log.wait_takes = 0.5;
  link->wait(Pending{2});
  EXPECT_EQ(traffic->wait_seconds, 0.75);
}

TEST_F(Metered, CountsTheTimeOfAWaitThatFailed) {
  const auto link = make(4);
  log.wait_takes = 60;
  log.wait_fails = true;
  EXPECT_THROW(link->wait(Pending{1}), LinkError);
  EXPECT_EQ(traffic->wait_seconds, 60);
}

TEST_F(Metered, CountsChannelsIntoTheSameTraffic) {
  const auto link = make(3);
  const auto child = link->channel(5);
  const auto grandchild = child->channel(6);
  const std::array<std::byte, 4> bytes{};
  (void)link->send(0, bytes);
  (void)child->send(2, bytes);
  (void)grandchild->send(2, bytes);
  EXPECT_EQ(traffic->bytes_to, (Counts{4, 0, 8}));
  EXPECT_EQ(traffic->messages_to, (Counts{1, 0, 2}));
  EXPECT_EQ(log.calls,
            (std::vector<std::string>{"send 0 4", "5: send 2 4", "5: 6: send 2 4"}));
}

TEST_F(Metered, CountsANativeAllreduceAsARingWould) {
  const auto link = make(4);
  std::vector<float> x(1000);
  EXPECT_TRUE(link->allreduce(x));
  EXPECT_EQ(x, std::vector<float>(1000, 5.0f));
  EXPECT_EQ(traffic->bytes_to, (Counts{0, 0, 6000, 0}));  // 2 n (P - 1) / P words of 4
  EXPECT_EQ(traffic->messages_to, (Counts{0, 0, 6, 0}));
}

TEST_F(Metered, CountsAnAllreduceOfTheLastRankToTheFirst) {
  const auto link = make(2);  // this is rank 1 of 2
  std::vector<float> x(10);
  EXPECT_TRUE(link->allreduce(x));
  EXPECT_EQ(traffic->bytes_to, (Counts{40, 0}));
  EXPECT_EQ(traffic->messages_to, (Counts{2, 0}));
}

TEST_F(Metered, CountsNothingForAnAllreduceAmongOneRank) {
  const auto link = make(1);
  std::vector<float> x(1000);
  EXPECT_TRUE(link->allreduce(x));
  EXPECT_EQ(traffic->bytes(), 0u);
  EXPECT_EQ(traffic->messages(), 0u);
}

TEST_F(Metered, CountsNothingWhereThereIsNoNativeAllreduce) {
  const auto link = make(4);
  log.has_allreduce = false;
  std::vector<float> x(1000);
  EXPECT_FALSE(link->allreduce(x));
  EXPECT_EQ(x, std::vector<float>(1000));
  EXPECT_EQ(traffic->bytes(), 0u);
}

TEST_F(Metered, CountsAgainAfterTheTrafficWasCleared) {
  const auto link = make(3);
  const std::array<std::byte, 4> bytes{};
  (void)link->send(0, bytes);
  *traffic = {};
  (void)link->send(2, bytes);
  EXPECT_EQ(traffic->bytes_to, (Counts{0, 0, 4}));
}

TEST_F(Metered, NeedsAChannelAndATraffic) {
  EXPECT_THROW((void)make_metered(nullptr, traffic), ContractError);
  EXPECT_THROW((void)make_metered(std::make_unique<Fake>(2, log), nullptr),
               ContractError);
}

}  // namespace
}  // namespace topknot
