// SPDX-License-Identifier: Apache-2.0
//
// c10d: ranks are the processes of a torch job, joined by a Gloo group of our own.
//
// Gloo receives into memory of a size that must be known beforehand: a shorter message is
// accepted and not reported, a longer one ends the process. So a few receives are always posted for
// each peer, each for a frame, and a message is sent as
//
//   frame   header, at most 64 KiB of the message, mark   tag 0
//   rest    what is left of it, if anything               a tag that the header names
//
// frame.h has the header, which has a checksum of its own: what it says decides where a message
// goes. Frames and receives are matched in the Queue of their channel and sender; the rest is received
// once both are known and its length is within the limit. A receive for a frame is always posted,
// so a message of up to 64 KiB needs no round trip and no call of the receiver. A longer one
// needs one round trip more, which takes less time than 64 KiB on a network that is slow enough
// to compress for.
//
// Who reads the frames: A caller of Gloo can wait for a message but not ask whether it has come, and
// a wait that times out closes every connection. A thread for each peer would wait well, but 64 ranks
// on a machine would have 4,000 of them. A receive from any rank would need one thread, but a
// round trip more for each message, because the sender has to be told which receive is meant;
// and it does not end when a connection breaks. So
//
//   the thread that waits for a message of a rank waits for the frames of that rank, whichever
//   channels they are for. Others that wait for the same rank wait for that thread.
//
//   one thread, the poller, reads the frames of the ranks for which nobody waits. It sees in memory
//   that a frame has come: memory that is posted is all 0, and the last byte of a frame is not.
//   Only then it waits for Gloo, which is about to say that the receive is done.
//
// The poller looks every 0.25 ms while frames come, and down to every 16 ms while none do.
// It also keeps the deadlines. Every 0.1 s it asks of each connection whether it is broken: a wait that was
// ended beforehand returns at once, and throws where the connection is broken and all frames that came
// were read. The thread that waits for a rank sees at once when its connection breaks. The ranks agree
// on the cause of a failure by FailureAgreement, whose control messages are frames; the poller
// answers them while the rank computes.
//
// Order: Gloo matches messages of one tag with receives of that tag in the order in which both
// were started. So the frames of one sender come in order; the rests have tags of their own.
// python/tests/test_link.py checks this.
//
// Messages are received into memory of the endpoint, and wait() moves them to the caller. Gloo
// no longer reads what is being sent once its Work is destroyed, so abandon() frees the memory.

#include "transports/c10d/c10d.h"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <unordered_map>

#include "core/random.h"
#include "core/text.h"
#include "topknot/error.h"
#include "transports/c10d/endpoint.h"

namespace topknot {
namespace {

using namespace c10d_link;

class C10d final : public Transport {
 public:
  C10d(std::shared_ptr<Endpoint> endpoint, std::uint64_t channel)
      : endpoint_(std::move(endpoint)), channel_(channel) {}

  ~C10d() override { abandon(); }
  C10d(const C10d&) = delete;
  C10d& operator=(const C10d&) = delete;

  int rank() const noexcept override { return endpoint_->rank(); }
  int size() const noexcept override { return endpoint_->size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return start(to, bytes, nullptr);
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const std::span<const std::byte> view = *bytes;
    return start(to, view, std::move(bytes));
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    require_not_failed();
    auto operation = new_operation(from);
    operation->into = &into;
    operation->limit = limit;
    operation->bytes = std::move(into);
    into.clear();
    endpoint_->guarded(from, [&] { endpoint_->want(channel_, operation); });
    return keep(std::move(operation));
  }

  void wait(Pending message) override {
    const auto found = operations_.find(static_cast<std::uint64_t>(message));
    if (found == operations_.end()) {
      require_not_failed();
      throw ContractError("wait() was called for a message that is not under way.");
    }
    const std::shared_ptr<Operation> operation = std::move(found->second);
    operations_.erase(found);
    try {
      if (!operation->is_send)
        endpoint_->await_frame(*operation, limit_);
      else if (operation->frame)
        endpoint_->await(operation->frame, operation->peer, operation->peer, limit_);
      if (operation->rest)
        endpoint_->await(operation->rest, operation->peer, operation->peer, limit_);
    } catch (const LinkError&) {
      abandon();
      endpoint_->withdraw(channel_, {operation});
      throw;
    }
    if (!operation->is_send) *operation->into = std::move(operation->bytes);
    if (operation->too_long != 0) refuse(*operation);
  }

  void fail(const LinkError& cause) noexcept override {
    endpoint_->agreement().fail(Failure::of(cause));
  }

  void abandon() noexcept override {
    std::vector<std::shared_ptr<Operation>> open;
    for (auto& [id, operation] : operations_) open.push_back(std::move(operation));
    operations_.clear();
    if (!open.empty()) abandoned_ = true;
    endpoint_->withdraw(channel_, open);
  }

  void allow(double seconds) override { limit_ = seconds; }

  bool allreduce(std::span<float> x) override {
    require_not_failed();
    const int next = (rank() + 1) % size();
    Work work;
    endpoint_->guarded(next, [&] {
      std::vector<at::Tensor> tensors = {
          at::from_blob(x.data(), {static_cast<std::int64_t>(x.size())}, at::kFloat)};
      work = endpoint_->backend().allreduce(tensors);
    });
    endpoint_->await(work, next, FailureAgreement::kEveryone);
    return true;
  }

  double now() const noexcept override {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }

  int node_of(int rank) const noexcept override {
    return endpoint_->hosts().empty()
               ? rank
               : endpoint_->hosts()[static_cast<std::size_t>(rank)];
  }

  // A channel's number is a hash of the ids that lead to it from the first channel.
  std::unique_ptr<Transport> channel(int id) override {
    const auto step = static_cast<std::uint32_t>(id);
    return std::make_unique<C10d>(endpoint_, core::random_bits(channel_, step));
  }

 private:
  std::shared_ptr<Operation> new_operation(int peer) const {
    if (peer < 0 || peer >= size())
      throw ContractError("There is no rank " + std::to_string(peer) + " among " +
                          std::to_string(size()) + ".");
    auto operation = std::make_shared<Operation>();
    operation->peer = peer;
    return operation;
  }

  Pending keep(std::shared_ptr<Operation> operation) {
    operations_.emplace(++last_id_, std::move(operation));
    return static_cast<Pending>(last_id_);
  }

  Pending start(int to, std::span<const std::byte> bytes,
                std::shared_ptr<const std::vector<std::byte>> shared) {
    require_not_failed();
    auto operation = new_operation(to);
    operation->is_send = true;
    operation->shared = std::move(shared);
    endpoint_->start(channel_, *operation, bytes);
    return keep(std::move(operation));
  }

  void require_not_failed() const {
    endpoint_->require_not_failed();
    if (abandoned_) throw LinkError(rank(), "this channel has been given up");
  }

  [[noreturn]] void refuse(const Operation& operation) const {
    throw OverlongError(operation.peer,
                        "rank " + std::to_string(operation.peer) + " sent a message of " +
                            std::to_string(operation.too_long) + " bytes where at most " +
                            std::to_string(operation.limit) + " were expected");
  }

  const std::shared_ptr<Endpoint> endpoint_;
  const std::uint64_t channel_;
  bool abandoned_ = false;
  std::optional<double> limit_;  // seconds, of a wait
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Operation>> operations_;
};

}  // namespace

std::unique_ptr<Transport> make_c10d(const std::string& group, std::vector<int> hosts,
                                     const LinkOptions& options) {
  if (!(options.timeout > 0))
    throw ConfigError("the timeout must be more than 0 seconds, not " +
                      core::shortest(options.timeout));
  c10::intrusive_ptr<c10d::ProcessGroup> found;
  try {
    found = c10d::resolve_process_group(group);
  } catch (const std::exception& error) {
    throw ConfigError("There is no process group named " + group + ": " +
                      reason_of(error) + ".");
  }
  const std::string kind = found->getBackend(c10::DeviceType::CPU)->getBackendName();
  if (kind != "gloo")
    throw ConfigError("The process group must be one of Gloo's, made by " +
                      std::string("dist.new_group(backend=\"gloo\"), not of ") + kind +
                      ".");
  if (!hosts.empty() && hosts.size() != static_cast<std::size_t>(found->getSize()))
    throw ContractError("There are " + std::to_string(hosts.size()) + " hosts for " +
                        std::to_string(found->getSize()) + " ranks.");
  return std::make_unique<C10d>(
      std::make_shared<Endpoint>(std::move(found), std::move(hosts), options), 0);
}

}  // namespace topknot
