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
