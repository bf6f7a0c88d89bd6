// SPDX-License-Identifier: Apache-2.0
//
// The base of transports that stand before another one: what counts, delays or watches it.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "topknot/transport.h"

namespace topknot {

/// Forwards everything to another channel. A derived class overrides what it changes, and
/// always says what becomes of further channels.
class ForwardingTransport : public Transport {
 public:
  /// `link` must outlive this.
  explicit ForwardingTransport(Transport& link) : link_(link) {}
  explicit ForwardingTransport(std::unique_ptr<Transport> link)
      : own_(std::move(link)), link_(*own_) {}

  int rank() const noexcept override { return link_.rank(); }
  int size() const noexcept override { return link_.size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    const Pending message = link_.send(to, bytes);
    on_sent(to, bytes);
    return message;
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const Pending message = link_.send_shared(to, bytes);
    on_sent(to, *bytes);
    return message;
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_.recv(from, into, limit);
  }
  void wait(Pending message) override { link_.wait(message); }
  void fail(const LinkError& cause) noexcept override { link_.fail(cause); }
  void abandon() noexcept override { link_.abandon(); }
  void allow(double seconds) override { link_.allow(seconds); }
  bool allreduce(std::span<float> x) override { return link_.allreduce(x); }
  void spent(Phase phase, double seconds) noexcept override {
    link_.spent(phase, seconds);
  }
  double now() const noexcept override { return link_.now(); }
  int node_of(int rank) const noexcept override { return link_.node_of(rank); }
  std::unique_ptr<Transport> channel(int id) final { return wrap(link_.channel(id)); }

 protected:
  Transport& link() const noexcept { return link_; }

  /// What channel() returns for a new channel of the other transport: something that stands
  /// before it, or the channel itself.
  virtual std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) = 0;

  /// Is called with each message that send() or send_shared() has started.
  virtual void on_sent(int to, std::span<const std::byte> bytes) {
    static_cast<void>(to);
    static_cast<void>(bytes);
  }

 private:
  std::unique_ptr<Transport> own_;
  Transport& link_;
};

}  // namespace topknot
