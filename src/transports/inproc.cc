// SPDX-License-Identifier: Apache-2.0
//
// inproc: ranks are threads of one process.
//
// Every ordered pair of ranks has, for each channel, a Queue of sends that have no receive yet
// and of receives that have no send yet; one of the two is always empty. The second of the two
// ranks copies from the sender's bytes into the receiver's vector. So a message is copied once,
// the order of the waits does not matter, and a wait only sleeps until the other rank has called.
//
// A rank leaves when its last channel is destroyed, for instance by an exception. Its queues are
// then closed, and ranks that wait for it return at once rather than at the deadline.
//
// The ranks agree on the cause of a failure by FailureAgreement. Its control messages are calls:
// the thread that asks runs the other rank's answer.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/plant.h"
#include "topknot/error.h"
#include "topknot/transports.h"
#include "transports/failure_agreement.h"

namespace topknot {
namespace {

using transports::Failure;
using transports::FailureAgreement;
using Clock = FailureAgreement::Clock;

/// One message as one side sees it. Guarded by its queue's mutex.
struct Operation {
  std::span<const std::byte> bytes;                      // of a send
  std::shared_ptr<const std::vector<std::byte>> shared;  // owns `bytes`, or nothing
  std::vector<std::byte>* into = nullptr;                // of a receive
  std::size_t limit = 0;                                 // of a receive
  bool done = false;
  std::size_t too_long = 0;  // the message's length where that is over the limit
};

/// The messages from one rank to another over one channel.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Operation>> sent;    // not yet received
  std::deque<std::shared_ptr<Operation>> wanted;  // not yet sent
  bool closed = false;                            // one of its two ranks has left

  void deliver(Operation& from, Operation& to) {
    if (from.bytes.size() > to.limit && !TOPKNOT_PLANT(message_cut_silently))
      to.too_long = from.bytes.size();
    const auto bytes = from.bytes.first(std::min(from.bytes.size(), to.limit));
    to.into->assign(bytes.begin(), bytes.end());
    from.done = to.done = true;
    changed.notify_all();
  }

  // The memory of the operation is about to be freed: no peer may use it any more.
  void withdraw(const std::shared_ptr<Operation>& operation) {
    std::erase(sent, operation);
    std::erase(wanted, operation);
    closed = true;
    changed.notify_all();
  }
};

/// The queues of all channels between the ranks of one make_inproc().
class Hub {
 public:
  Hub(int size, double timeout) : size_(size), closed_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank)
      agreements_.push_back(std::make_unique<FailureAgreement>(
          rank, size, timeout,
          FailureAgreement::Network{
              [this, rank](int to, const FailureAgreement::Bytes& message) {
                agreement(to).receive(rank, message);
              },
              [this, rank] { wake(rank); }}));
  }

  int size() const noexcept { return size_; }
  FailureAgreement& agreement(int rank) {
    return *agreements_[static_cast<std::size_t>(rank)];
  }

  Queue& queue(const std::vector<int>& channel, int from, int to) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::unique_ptr<Queue>>& queues = channels_[channel];
    const std::size_t ranks = static_cast<std::size_t>(size_);
    if (queues.empty()) queues.resize(ranks * ranks);
    std::unique_ptr<Queue>& queue =
        queues[static_cast<std::size_t>(from) * ranks + static_cast<std::size_t>(to)];
    if (!queue) {
      queue = std::make_unique<Queue>();
      queue->closed = closed_[static_cast<std::size_t>(from)] ||
                      closed_[static_cast<std::size_t>(to)];
    }
    return *queue;
  }

  void leave(int rank) {
    const std::scoped_lock lock(mutex_);
    closed_[static_cast<std::size_t>(rank)] = true;
    for_queues_of(rank, [](Queue& queue) { queue.closed = true; });
  }

 private:
  // Ends the sleep of `rank`, wherever it waits.
  void wake(int rank) {
    const std::scoped_lock lock(mutex_);
    for_queues_of(rank, [](Queue&) {});
  }

  template <typename Change>
  void for_queues_of(int rank, Change change) {
    for (auto& [channel, queues] : channels_) {
      for (std::size_t i = 0; i < queues.size(); ++i) {
        const auto from = static_cast<int>(i) / size_;
        const auto to = static_cast<int>(i) % size_;
        if (!queues[i] || (from != rank && to != rank)) continue;
        const std::scoped_lock queue_lock(queues[i]->mutex);
        change(*queues[i]);
        queues[i]->changed.notify_all();
      }
    }
  }

  const int size_;
  std::mutex mutex_;
  std::vector<bool> closed_;
  std::map<std::vector<int>, std::vector<std::unique_ptr<Queue>>> channels_;
  std::vector<std::unique_ptr<FailureAgreement>> agreements_;  // by rank
};

/// Shared by the channels of one rank: the rank leaves when the last of them is destroyed.
class RankLifetime {
 public:
  RankLifetime(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~RankLifetime() { hub_->leave(rank_); }
  RankLifetime(const RankLifetime&) = delete;
  RankLifetime& operator=(const RankLifetime&) = delete;

  Hub& hub() const noexcept { return *hub_; }
  int rank() const noexcept { return rank_; }

 private:
  std::shared_ptr<Hub> hub_;
  const int rank_;
};

class Inproc final : public Transport {
 public:
  Inproc(std::shared_ptr<RankLifetime> lifetime, std::vector<int> path)
      : lifetime_(std::move(lifetime)),
        path_(std::move(path)),
        agreement_(lifetime_->hub().agreement(lifetime_->rank())) {
    for (int peer = 0; peer < size(); ++peer) {
      to_.push_back(&lifetime_->hub().queue(path_, rank(), peer));
      from_.push_back(&lifetime_->hub().queue(path_, peer, rank()));
    }
  }

  int rank() const noexcept override { return lifetime_->rank(); }
  int size() const noexcept override { return lifetime_->hub().size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return start_send(to, bytes, nullptr);
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const std::span<const std::byte> view = *bytes;
    return start_send(to, view, std::move(bytes));
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    auto operation = std::make_shared<Operation>();
    operation->into = &into;
    operation->limit = limit;
    Queue& queue = *from_.at(static_cast<std::size_t>(from));
    {
      const std::scoped_lock lock(queue.mutex);
      if (queue.sent.empty()) {
        queue.wanted.push_back(operation);
      } else {
        if (TOPKNOT_PLANT(messages_overtake))
          std::swap(queue.sent.front(), queue.sent.back());
        queue.deliver(*queue.sent.front(), *operation);
        queue.sent.pop_front();
      }
    }
    return remember({&queue, std::move(operation), from});
  }

  void wait(Pending message) override {
    const auto found = under_way_.find(message);
    if (found == under_way_.end())
      throw ContractError("wait() was called twice for one message, or for none.");
    const auto [queue, operation, peer] = std::move(found->second);
    under_way_.erase(found);

    std::unique_lock lock(queue->mutex);
    if (!operation->done) await(lock, *queue, *operation, peer);
    if (!operation->done) {
      queue->withdraw(operation);
      lock.unlock();
      agreement_.fail(why_left(peer));
      abandon();
      agreement_.failure().raise();
    }
    if (operation->too_long != 0)
      throw OverlongError(peer, "rank " + std::to_string(peer) + " sent a message of " +
                                    std::to_string(operation->too_long) +
                                    " bytes where at most " +
                                    std::to_string(operation->limit) + " were expected");
  }

  void fail(const LinkError& cause) noexcept override {
    agreement_.fail(Failure::of(cause));
  }

  // Nobody will wait for these messages: the channel has failed, and their memory is about to
  // be freed.
  void abandon() noexcept override {
    for (auto& [id, message] : under_way_) {
      const std::scoped_lock lock(message.queue->mutex);
      if (!message.operation->done) message.queue->withdraw(message.operation);
    }
    under_way_.clear();
  }

  void allow(double seconds) override { limit_ = seconds; }
  bool allreduce(std::span<float>) override { return false; }

  double now() const noexcept override {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }

  std::unique_ptr<Transport> channel(int id) override {
    std::vector<int> path = path_;
    path.push_back(id);
    return std::make_unique<Inproc>(lifetime_, std::move(path));
  }

  ~Inproc() override { abandon(); }
  Inproc(const Inproc&) = delete;
  Inproc& operator=(const Inproc&) = delete;

 private:
  struct UnderWay {
    Queue* queue;
    std::shared_ptr<Operation> operation;
    int peer;
  };

  Pending start_send(int to, std::span<const std::byte> bytes,
                     std::shared_ptr<const std::vector<std::byte>> shared) {
    auto operation = std::make_shared<Operation>();
    operation->bytes = bytes;
    operation->shared = std::move(shared);
    Queue& queue = *to_.at(static_cast<std::size_t>(to));
    {
      const std::scoped_lock lock(queue.mutex);
      if (queue.wanted.empty()) {
        queue.sent.push_back(operation);
      } else {
        queue.deliver(*operation, *queue.wanted.front());
        queue.wanted.pop_front();
      }
    }
    return remember({&queue, std::move(operation), to});
  }

  Pending remember(UnderWay message) {
    const Pending id{next_++};
    under_way_.emplace(id, std::move(message));
    return id;
  }

  // Why `peer` has left: because of a failure that it has heard of and this rank has not yet,
  // or for a reason of its own.
  Failure why_left(int peer) const {
    const FailureAgreement& theirs = lifetime_->hub().agreement(peer);
    if (theirs.failed()) return theirs.failure();
    return {peer, "rank " + std::to_string(peer) + " has left the job"};
  }

  // Returns when the operation is done or can no longer be. Holds the lock at the end.
  void await(std::unique_lock<std::mutex>& lock, Queue& queue, const Operation& operation,
             int peer) {
    const FailureAgreement::Wait wait(agreement_, peer, limit_);
    const auto is_over = [&] {
      return operation.done || queue.closed || agreement_.failed();
    };
    auto look_at = wait.deadline();
    while (!queue.changed.wait_until(lock, look_at, is_over)) {
      lock.unlock();
      look_at = agreement_.check(Clock::now());
      lock.lock();
    }
  }

  std::shared_ptr<RankLifetime> lifetime_;
  const std::vector<int> path_;  // the ids that led here from the first channel
  FailureAgreement& agreement_;
  std::optional<double> limit_;  // seconds, of a wait
  std::vector<Queue*> to_;       // by rank of the receiver
  std::vector<Queue*> from_;     // by rank of the sender
  std::map<Pending, UnderWay> under_way_;
  std::uint64_t next_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_inproc(int size,
                                                    const LinkOptions& options) {
  if (size < 1)
    throw ConfigError("A job has at least 1 rank, not " + std::to_string(size) + ".");
  auto hub = std::make_shared<Hub>(size, options.timeout);
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Inproc>(std::make_shared<RankLifetime>(hub, rank),
                                             std::vector<int>{}));
  return ranks;
}

}  // namespace topknot
