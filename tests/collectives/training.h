// SPDX-License-Identifier: Apache-2.0
//
// A few steps of training with a residual, as the collectives see it: gradients of several
// kinds, the outcome of each step, and what each rank sent, sorted by what it was for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/wire/wire.h"
#include "ranks.h"
#include "topknot/catalog.h"
#include "transports/forwarding_transport.h"

namespace topknot::testing {

/// Words that one rank sent on one step, headers apart. What travels before the first
/// positions is agreement on which; what travels after them is values.
struct Sent {
  std::uint64_t agreement = 0;
  std::uint64_t positions = 0;
  std::uint64_t values = 0;
  std::uint64_t messages = 0;

  std::uint64_t words() const { return positions + values; }
};

/// Passes everything on and sorts what is sent by looking at the headers.
class SortingMeter final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  /// From now on; a new step begins.
  void sort_into(Sent& sent) {
    sent_ = &sent;
    located_ = false;
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit);
    receiving_[message] = &into;
    return message;
  }
  void wait(Pending message) override {
    link().wait(message);
    const auto received = receiving_.find(message);
    if (received == receiving_.end()) return;
    located_ = located_ || has_positions(*received->second);
    receiving_.erase(received);
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return channel;
  }

  void on_sent(int, std::span<const std::byte> bytes) override {
    const std::uint64_t words = (bytes.size() - core::kHeaderBytes) / 4;
    located_ = located_ || has_positions(bytes);
    std::uint64_t& kind = has_positions(bytes) ? sent_->positions
                          : located_           ? sent_->values
                                               : sent_->agreement;
    kind += words;
    ++sent_->messages;
  }

  static bool has_positions(std::span<const std::byte> message) {
    return static_cast<core::Values>(message[5]) == core::Values::none;
  }

  Sent* sent_ = nullptr;
  bool located_ = false;  // positions have been seen on this step
  std::map<Pending, const std::vector<std::byte>*> receiving_;
};

/// What a collective keeps, by name: read from one, or given to one.
struct State final : StateVisitor {
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> tables;
  bool loading = false;

  template <typename T>
  void number(std::string_view name, T& value) {
    if (loading) {
      value = static_cast<T>(numbers.at(std::string(name)));
    } else {
      numbers[std::string(name)] = static_cast<double>(value);
    }
  }
  void field(std::string_view name, float& value) override { number(name, value); }
  void field(std::string_view name, double& value) override { number(name, value); }
  void field(std::string_view name, std::int64_t& value) override { number(name, value); }
  void field(std::string_view name, std::uint64_t& value) override {
    number(name, value);
  }
  void field(std::string_view name, std::vector<std::uint64_t>& values) override {
    if (loading) {
      values = tables.at(std::string(name));
    } else {
      tables[std::string(name)] = values;
    }
  }
  void coordinates(std::string_view, std::span<float>) override {}
};

inline State state_of(Collective& collective) {
  State state;
  collective.visit_state(state);
  return state;
}

using Gradient = std::function<float(int rank, int step, std::size_t i)>;

struct Training {
  std::string collective;
  Layout layout;
  std::size_t k = 0;
  int ranks = 1;
  int steps = 1;
  Gradient gradient;
  std::string compressor = "topk";
};

/// The outcome of a step.
struct Outcome {
  std::vector<std::uint32_t> index;  // of the sum, sorted
  std::vector<float> sum;            // all of it
  std::vector<std::vector<float>>
      folded;  // by rank: residual + gradient, before the step
  std::vector<std::vector<float>> residual;         // by rank: after it
  std::vector<std::vector<std::uint32_t>> settled;  // by rank
  std::vector<Sent> sent;                           // by rank
  State before;                                     // of rank 0, before the step
  State after;                                      // and after it
};

/// Runs it; every rank's gradient is gradient(rank, step, i).
inline std::vector<Outcome> train(const Training& t) {
  const auto ranks = static_cast<std::size_t>(t.ranks);
  std::vector<Outcome> steps(static_cast<std::size_t>(t.steps));
  for (Outcome& step : steps) {
    step.folded.resize(ranks);
    step.residual.resize(ranks);
    step.settled.resize(ranks);
    step.sent.resize(ranks);
  }
  run(t.ranks, [&](Transport& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const std::size_t n = t.layout.size();
    SortingMeter meter(link);
    const auto compressor = make_compressor(Spec::parse(t.compressor), t.layout);
    const auto made =
        make_collective(Spec::parse(t.collective), meter, *compressor, t.layout);
    std::vector<float> residual(n);
    std::vector<float> grad(n);
    for (int s = 0; s < t.steps; ++s) {
      Outcome& step = steps[static_cast<std::size_t>(s)];
      meter.sort_into(step.sent[rank]);
      for (std::size_t i = 0; i < n; ++i) grad[i] = t.gradient(link.rank(), s, i);
      step.folded[rank].resize(n);
      for (std::size_t i = 0; i < n; ++i) step.folded[rank][i] = residual[i] + grad[i];
      if (rank == 0) step.before = state_of(*made);
      const Reduced reduced = made->reduce(residual, grad, t.k, grad);
      step.residual[rank] = residual;
      step.settled[rank].assign(reduced.settled.begin(), reduced.settled.end());
      if (rank != 0) continue;
      step.after = state_of(*made);
      step.sum = grad;
      step.index.assign(reduced.index.begin(), reduced.index.end());
      std::sort(step.index.begin(), step.index.end());
    }
  });
  return steps;
}

/// Fails unless a collective that was given the saved state of another, after five steps,
/// goes on as that one does: the same sums, residuals and state.
inline void expect_goes_on_from_saved_state(const std::string& name, const Layout& layout,
                                            float (*gradient)(int rank, int step,
                                                              std::size_t i)) {
  run(3, [&](Transport& link) {
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto first = link.channel(0);
    const auto second = link.channel(1);
    const auto made = make_collective(Spec::parse(name), *first, *compressor, layout);
    const auto restored =
        make_collective(Spec::parse(name), *second, *compressor, layout);
    std::vector<float> residual(layout.size());
    std::vector<float> copy;
    for (int step = 0; step < 20; ++step) {
      std::vector<float> grad(layout.size());
      for (std::size_t i = 0; i < grad.size(); ++i)
        grad[i] = gradient(link.rank(), step, i);
      if (step == 5) {
        State state = state_of(*made);
        state.loading = true;
        restored->visit_state(state);
        copy = residual;
      }
      std::vector<float> again = grad;
      made->reduce(residual, grad, 60, grad);
      if (step < 5) continue;
      restored->reduce(copy, again, 60, again);
      EXPECT_EQ(again, grad) << name << ", step " << step;
      EXPECT_EQ(copy, residual) << name << ", step " << step;
      EXPECT_EQ(state_of(*restored).tables, state_of(*made).tables) << name;
      EXPECT_EQ(state_of(*restored).numbers, state_of(*made).numbers) << name;
    }
  });
}

/// The coordinates of the `k` largest magnitudes, found by sorting, ties to the lower one;
/// in order.
inline std::vector<std::uint32_t> places_of_largest(const std::vector<float>& x,
                                                    std::size_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::uint32_t i) { return std::abs(x[i]); });
  order.resize(std::min(k, order.size()));
  std::ranges::sort(order);
  return order;
}

/// One draw for each (stream, step, i), the same whoever asks.
inline float laplace(int stream, int step, std::size_t i) {
  const auto seed = static_cast<std::uint64_t>(step * 1000 + stream);
  return core::Random(seed, i).laplace();
}

inline float uncorrelated(int rank, int step, std::size_t i) {
  return laplace(rank, step, i);
}
inline float correlated(int rank, int step, std::size_t i) {
  return 0.9F * laplace(999, step, i) + 0.1F * laplace(rank, step, i);
}
/// Nearly everything that is large lies among the first 700 coordinates of one rank.
inline float skewed(int rank, int step, std::size_t i) {
  return laplace(rank, step, i) * (i < 700 ? 1000.0F : 1.0F) * (rank == 1 ? 50.0F : 1.0F);
}

}  // namespace topknot::testing
