// SPDX-License-Identifier: Apache-2.0
//
// sim: ranks on a virtual clock, over a network that is simulated.
//
// A message is three moments. The sender hands it over, and its port takes it (Ports::send). Its
// first byte comes to the receiver's port (Ports::receive). Its last byte has arrived. The first
// two are events of VirtualTime, so that ports serve messages in the order of time, whatever the
// order in which the ranks' threads run. A send is over when the sender's port is through with
// the message, a receive when the last byte is there. The bytes are copied into the receiver's
// vector by the receiver's own wait().
//
// A rank leaves when its last channel is destroyed. What it has sent still arrives; a rank that
// waits for more fails at once. The ranks agree on the cause of a failure by FailureAgreement, on
// the virtual clock; its control messages are calls and take no time.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topknot/error.h"
#include "topknot/simulated.h"
#include "transports/cores.h"
#include "transports/failure_agreement.h"
#include "transports/network.h"
#include "transports/virtual_time.h"

namespace topknot {
namespace {

using transports::CoreQueue;
using transports::Failure;
using transports::FailureAgreement;
using transports::Ports;
using transports::VirtualTime;
using Bytes = std::shared_ptr<const std::vector<std::byte>>;
using Clock = FailureAgreement::Clock;

Clock::time_point point_of(double seconds) {
  return Clock::time_point(
      std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds)));
}
double seconds_of(Clock::time_point point) {
  return std::chrono::duration<double>(point.time_since_epoch()).count();
}

/// A message under way.
struct Letter {
  Bytes bytes;
  std::optional<double> left;     // the sender's port
  std::optional<double> arrived;  // with its last byte
};

/// The messages from one rank to another over one channel, each of which one side has called for.
/// There are a million of these where a thousand ranks talk to each other, most of them empty.
struct Queue {
  std::vector<std::shared_ptr<Letter>> sent;    // not yet received
  std::vector<std::shared_ptr<Letter>> wanted;  // not yet sent: no bytes
  double last_heard = 0;  // when the first byte of the last message came
  double last_arrival = 0;
};

/// What the ranks of one run_simulated() share. Whoever has the baton uses it.
class Hub {
 public:
  Hub(int size, const SimulationOptions& options)
      : size_(size),
        options_(options),
        ports_(options.network, size),
        cores_(options.cores),
        time_(size, options.seed),
        waiting_(static_cast<std::size_t>(size)),
        left_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank)
      agreements_.push_back(std::make_unique<FailureAgreement>(
          rank, size, options.timeout,
          FailureAgreement::Network{
              .post =
                  [this, rank](int to, const FailureAgreement::Bytes& message) {
                    agreement(to).receive(rank, message);
                  },
              .on_failure = [this, rank] { time_.wake(rank, time_.now()); },
              .now = [this, rank] { return point_of(time_.now(rank)); }}));
  }

  int size() const noexcept { return size_; }
  VirtualTime& time() { return time_; }
  FailureAgreement& agreement(int rank) {
    return *agreements_[static_cast<std::size_t>(rank)];
  }
  int node_of(int rank) const { return rank / options_.network.ranks_per_node; }
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  Queue& queue(const std::vector<int>& channel, int from, int to) {
    return queues_[{channel, from, to}];
  }

  // Cores are taken in the order of time, so all that comes before happens first.
  void work(int rank, double seconds) {
    if (!cores_.is_shared()) return time_.advance(rank, seconds);
    while (seconds > 0) {
      time_.catch_up(rank);
      const double piece = std::min(seconds, cores_.slice());
      const double now = time_.now(rank);
      time_.advance(rank, cores_.serve(now, piece) - now);
      seconds -= piece;
    }
  }

  void send(Queue& queue, int from, int to, const std::shared_ptr<Letter>& letter) {
    work(from, ports_.link(from, to).overhead);
    const double time = time_.now(from);
    time_.schedule(time, from, [this, &queue, from, to, letter, time] {
      depart(queue, from, to, letter, time);
    });
  }

  // `rank` waits for `letter`, from or to `peer`: until it has come further, the job has
  // failed, `peer` has left, or `deadline` is reached.
  void await(int rank, const Letter& letter, int peer, double deadline) {
    waiting_[static_cast<std::size_t>(rank)] = {&letter, peer};
    time_.block(rank, deadline);
    waiting_[static_cast<std::size_t>(rank)] = {};
  }

  void leave(int rank) {
    time_.catch_up(rank);
    left_[static_cast<std::size_t>(rank)] = true;
    for (int peer = 0; peer < size_; ++peer)
      if (waiting_[static_cast<std::size_t>(peer)].peer == rank)
        time_.wake(peer, time_.now(rank));
  }

 private:
  void depart(Queue& queue, int from, int to, const std::shared_ptr<Letter>& letter,
              double time) {
    SimulatedMessage message{
        .from = from, .to = to, .bytes = letter->bytes->size(), .time = time};
    if (options_.on_message) options_.on_message(message);
    const Ports::Departure departure = ports_.send(from, to, message.bytes, time);
    letter->left = departure.left;
    tell(from, *letter, departure.left);
    if (message.lost) return;
    const double latency = from == to ? 0 : ports_.link(from, to).latency;
    const double heard = std::max(departure.heard + message.delay, queue.last_heard);
    queue.last_heard = heard;
    const double last = departure.left + latency + message.delay;
    const std::size_t bytes = message.bytes;
    time_.schedule(heard, from, [this, &queue, from, to, letter, bytes, heard, last] {
      const double end = ports_.receive(from, to, bytes, heard, last);
      queue.last_arrival = std::max(queue.last_arrival, end);
      letter->arrived = queue.last_arrival;
      tell(to, *letter, queue.last_arrival);
    });
  }

  // `rank` continues at `time` if it waits for this letter.
  void tell(int rank, const Letter& letter, double time) {
    if (waiting_[static_cast<std::size_t>(rank)].letter == &letter)
      time_.wake(rank, time);
  }

  const int size_;
  const SimulationOptions options_;
  Ports ports_;
  CoreQueue cores_;
  VirtualTime time_;
  std::map<std::tuple<std::vector<int>, int, int>, Queue> queues_;
  struct Waiting {
    const Letter* letter = nullptr;
    int peer = -1;
  };
  std::vector<Waiting> waiting_;                               // by rank
  std::vector<bool> left_;                                     // by rank
  std::vector<std::unique_ptr<FailureAgreement>> agreements_;  // by rank
};

/// Shared by the channels of one rank: the rank leaves when the last of them is destroyed.
class RankLifetime {
 public:
  RankLifetime(Hub& hub, int rank) : hub_(hub), rank_(rank) {}
  ~RankLifetime() { hub_.leave(rank_); }
  RankLifetime(const RankLifetime&) = delete;
  RankLifetime& operator=(const RankLifetime&) = delete;

  Hub& hub() const noexcept { return hub_; }
  int rank() const noexcept { return rank_; }

 private:
  Hub& hub_;
  const int rank_;
};

class Sim final : public SimulatedTransport {
 public:
  Sim(std::shared_ptr<RankLifetime> lifetime, std::vector<int> path)
      : lifetime_(std::move(lifetime)),
        path_(std::move(path)),
        agreement_(hub().agreement(lifetime_->rank())),
        to_(static_cast<std::size_t>(size())),
        from_(static_cast<std::size_t>(size())) {}

  int rank() const noexcept override { return lifetime_->rank(); }
  int size() const noexcept override { return hub().size(); }
  int node_of(int rank) const noexcept override { return hub().node_of(rank); }
  double now() const noexcept override { return hub().time().now(rank()); }
  void work(double seconds) override { hub().work(rank(), seconds); }
  void allow(double seconds) override { limit_ = seconds; }
  bool allreduce(std::span<float>) override { return false; }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return send_shared(
        to, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
  }

  Pending send_shared(int to, Bytes bytes) override {
    Queue& queue = queue_of(to_, to);
    std::shared_ptr<Letter> letter = meet(queue.wanted, queue.sent);
    letter->bytes = std::move(bytes);
    hub().send(queue, rank(), to, letter);
    return remember({std::move(letter), to});
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    Queue& queue = queue_of(from_, from);
    std::shared_ptr<Letter> letter = meet(queue.sent, queue.wanted);
    return remember({std::move(letter), from, &into, limit});
  }

  void wait(Pending message) override {
    const auto found = under_way_.find(message);
    if (found == under_way_.end())
      throw ContractError("wait() was called twice for one message, or for none.");
    const UnderWay operation = std::move(found->second);
    under_way_.erase(found);

    const auto over = [&] {
      return operation.into == nullptr ? operation.letter->left
                                       : operation.letter->arrived;
    };
    if (!over()) await(operation);
    if (!over()) {
      if (!agreement_.failed()) agreement_.fail(why_left(operation.peer));
      abandon();
      agreement_.failure().raise();
    }
    hub().time().advance(rank(), std::max(0.0, *over() - now()));
    if (operation.into != nullptr) deliver(operation);
  }

  void fail(const LinkError& cause) noexcept override {
    hub().time().catch_up(rank());
    agreement_.fail(Failure::of(cause));
  }

  void abandon() noexcept override { under_way_.clear(); }

  std::unique_ptr<Transport> channel(int id) override {
    std::vector<int> path = path_;
    path.push_back(id);
    return std::make_unique<Sim>(lifetime_, std::move(path));
  }

 private:
  struct UnderWay {
    std::shared_ptr<Letter> letter;
    int peer;
    std::vector<std::byte>* into = nullptr;  // of a receive
    std::size_t limit = 0;                   // of a receive
  };

  Hub& hub() const noexcept { return lifetime_->hub(); }

  Queue& queue_of(std::vector<Queue*>& queues, int peer) {
    Queue*& queue = queues.at(static_cast<std::size_t>(peer));
    if (queue == nullptr)
      queue = &queues == &to_ ? &hub().queue(path_, rank(), peer)
                              : &hub().queue(path_, peer, rank());
    return *queue;
  }

  // The message that the other side has called for first, or a new one that waits for it.
  static std::shared_ptr<Letter> meet(std::vector<std::shared_ptr<Letter>>& theirs,
                                      std::vector<std::shared_ptr<Letter>>& ours) {
    if (theirs.empty()) return ours.emplace_back(std::make_shared<Letter>());
    std::shared_ptr<Letter> letter = std::move(theirs.front());
    theirs.erase(theirs.begin());
    if (theirs.empty()) theirs.shrink_to_fit();
    return letter;
  }

  Pending remember(UnderWay message) {
    const Pending id{next_++};
    under_way_.emplace(id, std::move(message));
    return id;
  }

  static void deliver(const UnderWay& operation) {
    const std::vector<std::byte>& bytes = *operation.letter->bytes;
    const std::size_t kept = std::min(bytes.size(), operation.limit);
    operation.into->assign(bytes.begin(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(kept));
    if (kept == bytes.size()) return;
    throw OverlongError(operation.peer,
                        "rank " + std::to_string(operation.peer) + " sent a message of " +
                            std::to_string(bytes.size()) + " bytes where at most " +
                            std::to_string(operation.limit) + " were expected");
  }

  // Why `peer` has left: because of a failure that it has heard of and this rank has not yet,
  // or for a reason of its own.
  Failure why_left(int peer) const {
    const FailureAgreement& theirs = hub().agreement(peer);
    if (theirs.failed()) return theirs.failure();
    return {peer, "rank " + std::to_string(peer) + " has left the job"};
  }

  // Returns when the message has come, or can no longer come.
  void await(const UnderWay& operation) {
    const FailureAgreement::Wait wait(agreement_, operation.peer, limit_);
    Clock::time_point look_at = wait.deadline();
    const Letter& letter = *operation.letter;
    for (;;) {
      if (agreement_.failed()) return;
      if (operation.into == nullptr ? letter.left : letter.arrived) return;
      const bool never = letter.bytes == nullptr && hub().has_left(operation.peer);
      if (never) return;
      hub().await(rank(), letter, operation.peer, seconds_of(look_at));
      if (now() >= seconds_of(look_at))
        look_at = agreement_.check(std::max(look_at, point_of(now())));
    }
  }

  std::shared_ptr<RankLifetime> lifetime_;
  const std::vector<int> path_;  // the ids that led here from the first channel
  FailureAgreement& agreement_;
  std::optional<double> limit_;  // seconds, of a wait
  std::vector<Queue*> to_;       // by rank of the receiver, once it was used
  std::vector<Queue*> from_;     // by rank of the sender
  std::map<Pending, UnderWay> under_way_;
  std::uint64_t next_ = 0;
};

}  // namespace

void run_simulated(int ranks, const SimulationOptions& options,
                   const std::function<void(SimulatedTransport&)>& rank_main) {
  if (ranks < 1)
    throw ConfigError("A job has at least 1 rank, not " + std::to_string(ranks) + ".");
  if (!(options.timeout > 0 && options.timeout <= 1e9))
    throw ConfigError("A timeout is above 0 and at most 1e9 seconds.");
  Hub hub(ranks, options);
  hub.time().run([&](int rank) {
    Sim link(std::make_shared<RankLifetime>(hub, rank), {});
    rank_main(link);
  });
}

}  // namespace topknot
