// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/bucket.h"
#include "sim/gradient.h"
#include "topknot/error.h"
#include "transports/forwarding_transport.h"

namespace topknot::sim {
namespace {

/// Charges the work that comes with each byte received.
class Charged final : public ForwardingTransport {
 public:
  Charged(SimulatedTransport& clock, double per_byte)
      : ForwardingTransport(clock), clock_(clock), per_byte_(per_byte) {}
  Charged(std::unique_ptr<Transport> channel, SimulatedTransport& clock, double per_byte)
      : ForwardingTransport(std::move(channel)), clock_(clock), per_byte_(per_byte) {}

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit);
    receives_.emplace(message, &into);
    return message;
  }

  void wait(Pending message) override {
    link().wait(message);
    const auto found = receives_.find(message);
    if (found == receives_.end()) return;
    clock_.work(static_cast<double>(found->second->size()) * per_byte_);
    receives_.erase(found);
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Charged>(std::move(channel), clock_, per_byte_);
  }

  SimulatedTransport& clock_;
  const double per_byte_;
  std::map<Pending, const std::vector<std::byte>*> receives_;
};

/// A rank among ranks that are not there, for a collective that is asked for its cost.
class Alone final : public Transport {
 public:
  explicit Alone(int size) : size_(size) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return size_; }
  Pending send(int, std::span<const std::byte>) override { refuse(); }
  Pending recv(int, std::vector<std::byte>&, std::size_t) override { refuse(); }
  void wait(Pending) override { refuse(); }
  bool allreduce(std::span<float>) override { refuse(); }
  double now() const noexcept override { return 0; }
  std::unique_ptr<Transport> channel(int) override {
    return std::make_unique<Alone>(size_);
  }

 private:
  [[noreturn]] static void refuse() {
    throw ContractError("a collective that was asked for its cost sent a message");
  }
  const int size_;
};

constexpr double kManyCoordinates = 1 << 28;  // of all ranks: one step has to do

/// What one rank saw.
struct Seen {
  double begin = 0;  // of the steps that count
  double end = 0;
  double bytes = 0;
  double messages = 0;
};

/// Gradients of all ranks, made of two vectors: a rank's own part is the noise of all, turned by
/// its number, which costs nothing to draw.
class Gradients {
 public:
  Gradients(std::size_t n, int ranks, double correlation)
      : common_(n),
        noise_(n),
        turn_(std::max<std::size_t>(n / static_cast<std::size_t>(ranks), 1)) {
    fill_gradient(common_, 0, 0, 1);
    fill_gradient(noise_, 0, 0, 0);
    for (float& x : common_) x *= static_cast<float>(correlation);
    for (float& x : noise_) x *= static_cast<float>(1 - correlation);
  }

  void fill(std::span<float> x, int rank, int step) const {
    const std::size_t n = x.size();
    std::size_t from = (turn_ * static_cast<std::size_t>(rank) +
                        turn_ / 2 * static_cast<std::size_t>(step % 2)) %
                       n;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = common_[i] + noise_[from];
      if (++from == n) from = 0;
    }
  }

 private:
  std::vector<float> common_;
  std::vector<float> noise_;
  std::size_t turn_;
};

Personality personality_of(const Exchange& exchange) {
  return exchange.recipe.collective.name == "dense"
             ? exchange.personality.of_known_lengths()
             : exchange.personality;
}

/// Makes messages as long as the personality carries them. Vectors may be shorter than they stand for:
/// what is padded is what they stand for.
class Padding {
 public:
  Padding(const Personality& personality, double scale)
      : personality_(personality), scale_(scale) {}

  void pad(SimulatedMessage& message) {
    sent_ += static_cast<double>(message.bytes);
    const double carried =
        personality_.carried(static_cast<double>(message.bytes) / scale_) * scale_;
    message.bytes = static_cast<std::size_t>(std::llround(carried));
    carried_ += static_cast<double>(message.bytes);
  }
  /// Bytes carried for each byte sent, over all messages.
  double ratio() const { return sent_ > 0 ? carried_ / sent_ : 1; }

 private:
  const Personality personality_;
  const double scale_;
  double sent_ = 0;
  double carried_ = 0;
};

void run_rank(SimulatedTransport& clock, const Exchange& exchange,
              const Settings& settings, std::size_t n, const Gradients& gradients,
              const Rates& rates, Seen& seen) {
  Charged link(clock, rates.per_byte);
  engine::Bucket bucket(Layout::flat(n), exchange.recipe, link, 0);
  const auto k = static_cast<std::size_t>(exchange.density * static_cast<double>(n));
  std::vector<float> gradient(n);
  const int steps = settings.warm_up + settings.steps;
  for (int step = 0; step < steps; ++step) {
    if (step == settings.warm_up) {
      seen.begin = clock.now();
      seen.bytes = -static_cast<double>(bucket.traffic().bytes());
      seen.messages = -static_cast<double>(bucket.traffic().messages());
    }
    gradients.fill(gradient, clock.rank(), step);
    clock.work(static_cast<double>(n) * rates.per_coordinate);
    bucket.step(gradient, std::max<std::size_t>(k, 1), gradient, 1, exchange.density);
  }
  seen.end = clock.now();
  seen.bytes += static_cast<double>(bucket.traffic().bytes());
  seen.messages += static_cast<double>(bucket.traffic().messages());
}

// Where the collective's own cost is not known, it has no phases at all.
std::vector<CostPhase> phases_of(const Exchange& exchange) {
  Alone alone(exchange.ranks);
  const Layout layout = Layout::flat(1);
  const auto compressor = make_compressor(
      with_shared(exchange.recipe.compressor, exchange.recipe.collective), layout);
  const auto collective =
      make_collective(exchange.recipe.collective, alone, *compressor, layout);
  return collective->cost(exchange.coordinates, exchange.k());
}

// A message is on the sender's port, on its way, and then worked on. With several under way the
// slowest of these is the pace; with one at a time they come one after the other.
double seconds_of(const CostPhase& phase, const LinkSpeed& link, double per_byte) {
  if (phase.messages == 0) return 0;
  const double port = link.overhead + phase.bytes / link.bandwidth;
  const double work = link.overhead + phase.bytes * per_byte;
  const double way = port + link.latency + phase.bytes * per_byte;
  if (phase.in_flight <= 1) return phase.messages * way;
  const double pace = std::max({port, work, way / phase.in_flight});
  return (phase.messages - 1) * pace + way;
}

/// How much longer work takes than on a core of one's own.
double sharing(const Exchange& exchange) {
  if (exchange.cores.count == 0) return 1;
  return std::max(1.0, static_cast<double>(exchange.ranks) / exchange.cores.count);
}

}  // namespace

double Exchange::k() const {
  return std::clamp(std::floor(density * coordinates), 1.0, coordinates);
}

ExchangeTime simulate(const Exchange& exchange, const Settings& asked) {
  Settings settings = asked;
  const double most = settings.most_coordinates / exchange.ranks;
  const double length = std::floor(std::min(exchange.coordinates, std::max(most, 1.0)));
  const double scale = length / exchange.coordinates;
  if (length * exchange.ranks > kManyCoordinates) settings.warm_up = settings.steps = 1;
  const Gradients gradients(static_cast<std::size_t>(length), exchange.ranks,
                            settings.correlation);
  const Personality personality = personality_of(exchange);
  SimulationOptions options;
  options.network = personality.on(exchange.network);
  options.cores = exchange.cores;
  Padding padding(personality, scale);
  options.on_message = [&padding](SimulatedMessage& message) { padding.pad(message); };
  options.seed = settings.seed;
  for (LinkSpeed* link : {&options.network.between, &options.network.inside}) {
    link->bandwidth *= scale;
    link->burst *= scale;
  }
  const Rates rates{exchange.rates.per_coordinate / scale,
                    exchange.rates.per_byte / scale};
  std::vector<Seen> seen(static_cast<std::size_t>(exchange.ranks));
  run_simulated(exchange.ranks, options, [&](SimulatedTransport& clock) {
    run_rank(clock, exchange, settings, static_cast<std::size_t>(length), gradients,
             rates, seen[static_cast<std::size_t>(clock.rank())]);
  });
  const auto largest = [&](double Seen::*field) {
    return std::ranges::max(seen, {}, field).*field;
  };
  const double steps = settings.steps;
  return {.seconds =
              (largest(&Seen::end) - largest(&Seen::begin)) / steps + personality.once(),
          .bytes = largest(&Seen::bytes) * padding.ratio() / steps / scale,
          .messages = largest(&Seen::messages) / steps};
}

std::optional<ExchangeTime> closed_form(const Exchange& exchange) {
  if (exchange.network.ranks_per_node > 1)
    throw ConfigError(
        "The closed form knows one rank a node; take --method simulated for nodes of "
        "several.");
  const std::vector<CostPhase> phases = phases_of(exchange);
  if (phases.empty()) return std::nullopt;
  ExchangeTime time;
  const Personality personality = personality_of(exchange);
  const double shared = sharing(exchange);
  time.seconds =
      personality.once() + exchange.coordinates * exchange.rates.per_coordinate * shared;
  LinkSpeed link = personality.on(exchange.network).between;
  link.overhead *= shared;
  for (CostPhase phase : phases) {
    const double per_byte = exchange.rates.per_byte * shared * phase.bytes /
                            std::max(personality.carried(phase.bytes), 1.0);
    phase.bytes = personality.carried(phase.bytes);
    time.seconds += seconds_of(phase, link, per_byte);
    time.bytes += phase.messages * phase.bytes;
    time.messages += phase.messages;
  }
  return time;
}

}  // namespace topknot::sim
