// SPDX-License-Identifier: Apache-2.0
//
// What every collective is put through when a rank stops or the ranks disagree, on any
// transport.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot::testing {

/// Passes everything on, and calls `at_end` before it waits for the `left`-th message of all
/// channels.
class Stopping final : public Transport {
 public:
  Stopping(Transport& link, int left, std::function<void()> at_end)
      : link_(link), left_(std::make_shared<int>(left)), at_end_(std::move(at_end)) {}

  int rank() const noexcept override { return link_.rank(); }
  int size() const noexcept override { return link_.size(); }
  Pending send(int to, std::span<const std::byte> bytes) override {
    return link_.send(to, bytes);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    return link_.send_shared(to, std::move(bytes));
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_.recv(from, into, limit);
  }
  void wait(Pending message) override {
    if (--*left_ == 0) at_end_();
    link_.wait(message);
  }
  void fail(const LinkError& cause) noexcept override { link_.fail(cause); }
  void abandon() noexcept override { link_.abandon(); }
  bool allreduce(std::span<float> x) override { return link_.allreduce(x); }
  double now() const noexcept override { return link_.now(); }
  int node_of(int rank) const noexcept override { return link_.node_of(rank); }
  std::unique_ptr<Transport> channel(int id) override {
    std::unique_ptr<Transport> inner = link_.channel(id);
    auto outer = std::make_unique<Stopping>(*inner, 0, at_end_);
    outer->left_ = left_;
    outer->owned_ = std::move(inner);
    return outer;
  }

 private:
  std::unique_ptr<Transport> owned_;  // link_, where this is a sub-channel
  Transport& link_;
  std::shared_ptr<int> left_;
  const std::function<void()> at_end_;
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
