// SPDX-License-Identifier: Apache-2.0
//
// A rank's end of a simulated network on which a FaultPlan is carried out. One rank runs at a
// time there, so that all ranks count together without a lock.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "faults/fault_plan.h"
#include "topknot/simulated.h"
#include "transports/forwarding_transport.h"

namespace topknot::testing {

/// What the victim of a kill throws.
struct Killed {};

/// What has come of the plan so far, for all ranks.
struct FaultState {
  explicit FaultState(FaultPlan what) : plan(std::move(what)) {}

  const FaultPlan plan;
  std::uint64_t sent = 0;   ///< messages of all ranks
  std::uint64_t calls = 0;  ///< of the victim
  int injected = 0;         ///< faults that were done
  int sender = -1;          ///< of the message that was hurt
  double overdue =
      0;  ///< the longest wait of any rank beyond its limit, in virtual seconds
};

class FaultyTransport final : public ForwardingTransport {
 public:
  using Bytes = std::vector<std::byte>;
  using Shared = std::shared_ptr<const Bytes>;

  /// `rank` is what `link` is a channel of, or the same.
  FaultyTransport(Transport& link, SimulatedTransport& rank, FaultState& state)
      : ForwardingTransport(link), base_(rank), state_(state) {}
  FaultyTransport(std::unique_ptr<Transport> link, SimulatedTransport& rank,
                  FaultState& state)
      : ForwardingTransport(std::move(link)), base_(rank), state_(state) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    return send_shared(to, std::make_shared<const Bytes>(bytes.begin(), bytes.end()));
  }

  Pending send_shared(int to, Shared bytes) override {
    note_call();
    const Shared before = std::exchange(last_[to], bytes);
    const bool hurt = state_.sent++ == state_.plan.message && to != rank();
    if (held_ && held_->to == to) return overtake(to, std::move(bytes));
    if (!hurt) return link().send_shared(to, std::move(bytes));
    switch (state_.plan.kind) {
      case FaultKind::duplicate:
        note_fault();
        static_cast<void>(link().send_shared(to, bytes));
        break;
      case FaultKind::reorder:  // withheld until the next, or until it is waited for
        note_fault();
        held_ = Held{to, std::move(bytes), std::nullopt};
        return kHeld;
      case FaultKind::truncate:
      case FaultKind::flip:
        note_fault();
        bytes = damaged(*bytes);
        break;
      case FaultKind::replay:
        if (!before) break;
        note_fault();
        bytes = before;
        break;
      default:
        break;
    }
    return link().send_shared(to, std::move(bytes));
  }

  void allow(double seconds) override {
    limit_ = seconds;
    link().allow(seconds);
  }

  Pending recv(int from, Bytes& into, std::size_t limit) override {
    note_call();
    return link().recv(from, into, limit);
  }

  void wait(Pending message) override {
    note_call();
    struct Watch {
      FaultyTransport& link;
      const double start;
      ~Watch() {
        double& overdue = link.state_.overdue;
        overdue = std::max(overdue, link.base_.now() - start - link.limit_);
      }
    } const watch{*this, base_.now()};
    if (message != kHeld) return link().wait(message);
    // Nothing has overtaken it: it is sent after all.
    const Pending late =
        held_->sent ? *held_->sent : link().send_shared(held_->to, held_->bytes);
    held_.reset();
    link().wait(late);
  }

 private:
  static constexpr Pending kHeld{~std::uint64_t{0}};
  struct Held {
    int to;
    Shared bytes;
    std::optional<Pending> sent;
  };

  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<FaultyTransport>(std::move(channel), base_, state_);
  }

  Pending overtake(int to, Shared bytes) {
    const Pending first = link().send_shared(to, std::move(bytes));
    if (!held_->sent) held_->sent = link().send_shared(to, held_->bytes);
    return first;
  }

  Shared damaged(const Bytes& bytes) const {
    Bytes changed = bytes;
    core::Random random(state_.plan.random);
    if (state_.plan.kind == FaultKind::truncate) {
      changed.resize(random.below(bytes.size()));
    } else {
      const std::uint64_t first = random.below(8 * bytes.size());
      for (std::uint64_t i = 0; i <= state_.plan.random % 3; ++i) {
        const std::uint64_t bit = (first + 7 * i) % (8 * bytes.size());
        changed[bit / 8] ^= std::byte{1} << (bit % 8);
      }
    }
    return std::make_shared<const Bytes>(std::move(changed));
  }

  void note_fault() {
    ++state_.injected;
    state_.sender = rank();
  }

  void note_call() {
    const FaultPlan& plan = state_.plan;
    if (rank() != plan.victim || state_.calls++ != plan.call) return;
    if (plan.kind != FaultKind::kill && plan.kind != FaultKind::stop) return;
    note_fault();
    if (plan.kind == FaultKind::kill) throw Killed();
    stop();
  }

  // The others run on meanwhile, and see that this rank waits for no one but itself.
  void stop() {
    constexpr int kOwnChannel = 999;
    base_.work(10 * kDiskLimit);
    const auto own = base_.channel(kOwnChannel);
    Bytes in;
    const Pending sent = own->send(rank(), {});
    own->wait(own->recv(rank(), in, 0));
    own->wait(sent);
  }

  SimulatedTransport& base_;
  FaultState& state_;
  double limit_ = kDeadline;
  std::map<int, Shared> last_;  // by receiver: the message before
  std::optional<Held> held_;
};

}  // namespace topknot::testing
