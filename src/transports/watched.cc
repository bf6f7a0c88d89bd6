// SPDX-License-Identifier: Apache-2.0
#include "transports/watched.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

double wall_clock() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Waiting::Now Waiting::now() const {
  const int rank = rank_;
  return {rank, rank < 0 ? 0 : wall_clock() - since_};
}

class Watched final : public ForwardingTransport {
 public:
  Watched(Transport& link, std::shared_ptr<Waiting> waiting)
      : ForwardingTransport(link), waiting_(std::move(waiting)) {}
  Watched(std::unique_ptr<Transport> link, std::shared_ptr<Waiting> waiting)
      : ForwardingTransport(std::move(link)), waiting_(std::move(waiting)) {}

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit);
    senders_.emplace_back(message, from);
    return message;
  }

  void wait(Pending message) override {
    struct Mark {
      Waiting& waiting;
      ~Mark() { waiting.rank_ = -1; }
    };
    const auto found =
        std::ranges::find(senders_, message, &std::pair<Pending, int>::first);
    if (found == senders_.end()) return link().wait(message);
    const Mark mark{*waiting_};
    waiting_->since_ = wall_clock();
    waiting_->rank_ = found->second;
    *found = senders_.back();
    senders_.pop_back();
    link().wait(message);
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Watched>(std::move(channel), waiting_);
  }

  std::shared_ptr<Waiting> waiting_;
  std::vector<std::pair<Pending, int>> senders_;  // of messages that are on their way
};

std::unique_ptr<Transport> make_watched(Transport& link,
                                        std::shared_ptr<Waiting> waiting) {
  return std::make_unique<Watched>(link, std::move(waiting));
}

}  // namespace topknot
