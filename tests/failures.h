// SPDX-License-Identifier: Apache-2.0
//
// What every collective is put through when a rank stops or the ranks disagree, on any
// transport.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/transports.h"
#include "transports/forwarding_transport.h"

namespace topknot::testing {

/// Calls `at_end` before it waits for the `left`-th message of all channels.
class Stopping final : public ForwardingTransport {
 public:
  Stopping(Transport& link, int left, std::function<void()> at_end)
      : ForwardingTransport(link),
        left_(std::make_shared<int>(left)),
        at_end_(std::move(at_end)) {}
  Stopping(std::unique_ptr<Transport> link, std::shared_ptr<int> left,
           std::function<void()> at_end)
      : ForwardingTransport(std::move(link)),
        left_(std::move(left)),
        at_end_(std::move(at_end)) {}

  void wait(Pending message) override {
    if (--*left_ == 0) at_end_();
    link().wait(message);
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Stopping>(std::move(channel), left_, at_end_);
  }

  std::shared_ptr<int> left_;
  const std::function<void()> at_end_;
};

/// Turns a bit of the `left`-th message that it receives on any channel.
class Damaging final : public ForwardingTransport {
 public:
  struct Plan {
    int left;           ///< counted down by the messages received
    std::uint64_t bit;  ///< of the message, modulo its length
    int sender = -1;    ///< of the message that was damaged; -1 while none was
  };
  Damaging(Transport& link, Plan& plan) : ForwardingTransport(link), plan_(plan) {}
  Damaging(std::unique_ptr<Transport> link, Plan& plan)
      : ForwardingTransport(std::move(link)), plan_(plan) {}

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit);
    receives_[message] = {from, &into};
    return message;
  }
  void wait(Pending message) override {
    link().wait(message);
    const auto found = receives_.find(message);
    if (found == receives_.end()) return;
    const auto [from, into] = found->second;
    receives_.erase(found);
    if (into->empty() || --plan_.left != 0) return;
    const std::uint64_t bit = plan_.bit % (8 * into->size());
    (*into)[bit / 8] ^= std::byte{1} << (bit % 8);
    plan_.sender = from;
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Damaging>(std::move(channel), plan_);
  }

  Plan& plan_;
  std::map<Pending, std::pair<int, std::vector<std::byte>*>> receives_;
};

/// Steps of `collective` on vectors of 1,000.
inline void reduce_steps(Transport& link, const std::string& collective, std::size_t k,
                         int steps) {
  constexpr std::size_t kSize = 1000;
  const Layout layout = Layout::flat(kSize);
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
  std::vector<float> residual(kSize);
  std::vector<float> sum(kSize);
  std::vector<float> grad(kSize);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < kSize; ++i)
      grad[i] =
          static_cast<float>((i * 7919 + static_cast<std::size_t>(link.rank())) % 991);
    made->reduce(residual, grad, k, sum);
  }
}

/// Every collective of the catalog, in groups of two where it has groups.
inline std::vector<std::string> all_collectives(int ranks) {
  std::vector<std::string> names;
  for (const CollectiveEntry& entry : collectives())
    names.push_back(entry.name == "hierarchical" && ranks % 2 == 0
                        ? "hierarchical:group=2"
                        : std::string(entry.name));
  return names;
}

}  // namespace topknot::testing
