// SPDX-License-Identifier: Apache-2.0
//
// What does it cost that no message is believed unseen? Times steps of a bucket over MPI, keeps the
// messages of one of them, and then times alone, on those messages and on all ranks at once,
// what a step does for integrity and could be left out if nothing ever went wrong:
//
//   header     32 bytes of each message: what a line of so many Mb/s takes to carry them
//   checksum   XXH3 of every byte sent and of every byte received
//   checks     of the header of each message received; and that positions rise, in a pass of its own
//              over as many positions as the bytes could hold: the decoder has no pass of its own
//   hash       of weights and momentum, and its exchange, every 100 steps
//
//   mpirun -n 4 integrity_mpi N DENSITY STEPS MBPS COLLECTIVE...
//
// Prints JSON: seconds a step of the slowest rank, medians. The step is the exchange alone; in
// training a forward and a backward pass are added to it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "core/wire/wire.h"
#include "engine/bucket.h"
#include "topknot/transports.h"
#include "transports/control_channel.h"
#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kCheckEvery = 100;  // steps, as `train` has it
constexpr int kRepeats = 20;
constexpr double kPayload = 0.94;  // of a line's rate, as TCP over Ethernet leaves it

/// The messages of a step.
struct Log {
  bool keeps = false;
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
};

class Recorded final : public ForwardingTransport {
 public:
  Recorded(Transport& link, Log& log) : ForwardingTransport(link), log_(log) {}
  Recorded(std::unique_ptr<Transport> link, Log& log)
      : ForwardingTransport(std::move(link)), log_(log) {}

  Pending recv(int from, Bytes& into, std::size_t limit) override {
    const Pending message = link().recv(from, into, limit);
    if (log_.keeps) receives_[message] = &into;
    return message;
  }
  void wait(Pending message) override {
    link().wait(message);
    const auto found = receives_.find(message);
    if (found == receives_.end()) return;
    log_.received.push_back(*found->second);
    receives_.erase(found);
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<Recorded>(std::move(channel), log_);
  }
  void on_sent(int, std::span<const std::byte> bytes) override {
    if (log_.keeps) log_.sent.emplace_back(bytes.begin(), bytes.end());
  }

  Log& log_;
  std::map<Pending, Bytes*> receives_;
};

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Of one rank, in the order in which they are printed.
struct Costs {
  double step, header, checksum, checks, hash, messages, sent_bytes;
};

class Rank {
 public:
  Rank(Transport& link, std::size_t n, double density, double mbps)
      : link_(link), control_(link), n_(n), density_(density), mbps_(mbps) {
    core::Random random(static_cast<std::uint64_t>(link.rank()) + 1);
    gradient_.resize(n);
    for (float& x : gradient_) x = random.laplace();
  }

  Costs measure(const std::string& collective, int steps, int channel) {
    Log log;
    Costs costs{};
    costs.step = time_steps(collective, steps, channel, log);
    const auto bytes = [](const std::vector<Bytes>& messages) {
      double all = 0;
      for (const Bytes& message : messages) all += static_cast<double>(message.size());
      return all;
    };
    costs.messages = static_cast<double>(log.sent.size());
    costs.sent_bytes = bytes(log.sent);
    costs.header = 8 * static_cast<double>(core::kHeaderBytes) * costs.messages /
                   (kPayload * 1e6 * mbps_);
    costs.checksum = together([&] { checksum(log); });
    costs.checks =
        checks(log, collective.starts_with("dense") ? 0 : bytes(log.received) / 4);
    costs.hash = hash();
    return costs;
  }

  /// By rank.
  std::vector<std::vector<Costs>> of_all(const Costs& mine) {
    return control_.gather(std::vector<Costs>{mine});
  }

 private:
  double time_steps(const std::string& collective, int steps, int channel, Log& log) {
    const Spec spec = Spec::parse(collective);
    Recorded link(link_, log);
    engine::Bucket bucket(
        Layout::flat(n_),
        {{"residual", {}}, Spec::parse(default_compressor(spec.name)), spec}, link,
        channel);
    std::vector<float> sum(n_);
    std::vector<double> seconds;
    const auto k = static_cast<std::size_t>(density_ * static_cast<double>(n_));
    for (int step = 0; step <= steps + 2; ++step) {  // two before those that count
      log.keeps = step == steps + 2;                 // one after them
      std::vector<float> gradient = gradient_;
      control_.barrier();
      const StepTrace trace = bucket.step(gradient, k, sum, 1, density_);
      if (step >= 2 && !log.keeps) seconds.push_back(trace.seconds);
    }
    return median(seconds);
  }

  /// Median seconds of `work`, which all ranks begin together.
  double together(const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < kRepeats; ++i) {
      control_.barrier();
      const double start = link_.now();
      work();
      times.push_back(link_.now() - start);
    }
    return median(times);
  }

  void checksum(const Log& log) {
    std::uint64_t all = 0;
    for (const auto* messages : {&log.sent, &log.received})
      for (const Bytes& message : *messages) all ^= core::hash(message);
    kept_ = all;
  }

  double checks(const Log& log, double positions) {
    Bytes header;
    std::vector<float> no_error;
    const core::Stamp stamp;
    const core::Region region{0, n_};
    core::encode(stamp, {}, region, {}, false, header, no_error);
    std::vector<std::uint32_t> index(static_cast<std::size_t>(positions));
    for (std::size_t i = 0; i < index.size(); ++i)
      index[i] = static_cast<std::uint32_t>(i);
    Sparse pairs;
    core::Decoded said;
    return together([&] {
      std::uint64_t faults = 0;
      for (std::size_t i = 0; i < log.received.size(); ++i)
        faults += core::decode(header, stamp, region, 0, pairs, said).has_value();
      for (std::size_t i = 1; i < index.size(); ++i) faults += index[i] <= index[i - 1];
      kept_ = faults;
    });
  }

  /// A step's share of it.
  double hash() {
    const std::vector<float> momentum(n_);
    return together([&] {
             const std::uint64_t both = core::hash(std::as_bytes(std::span(gradient_))) ^
                                        core::hash(std::as_bytes(std::span(momentum)));
             kept_ = control_.gather(std::vector<std::uint64_t>{both}).back()[0];
           }) /
           kCheckEvery;
  }

  Transport& link_;
  ControlChannel control_;
  const std::size_t n_;
  const double density_;
  const double mbps_;
  std::vector<float> gradient_;
  volatile std::uint64_t kept_ = 0;  // so that nothing is left out as useless
};

void print(const std::string& collective, const std::vector<std::vector<Costs>>& all,
           bool last) {
  const auto most = [&](double Costs::*field) {
    double found = 0;
    for (const auto& rank : all) found = std::max(found, rank[0].*field);
    return found;
  };
  std::printf(
      "  {\"collective\": \"%s\", \"step_seconds\": %.9f, \"header_seconds\": %.9f, "
      "\"checksum_seconds\": %.9f, \"checks_seconds\": %.9f, \"hash_seconds\": %.9f, "
      "\"messages\": %.0f, \"sent_bytes\": %.0f}%s\n",
      collective.c_str(), most(&Costs::step), most(&Costs::header),
      most(&Costs::checksum), most(&Costs::checks), most(&Costs::hash),
      most(&Costs::messages), most(&Costs::sent_bytes), last ? "" : ",");
}

int run(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: integrity_mpi N DENSITY STEPS MBPS COLLECTIVE...\n", stderr);
    return 2;
  }
  const auto link = make_mpi();
  const std::size_t n = std::strtoull(argv[1], nullptr, 10);
  Rank rank(*link, n, std::strtod(argv[2], nullptr), std::strtod(argv[4], nullptr));
  const bool speaks = link->rank() == 0;
  if (speaks)
    std::printf("{\"n\": %zu, \"ranks\": %d, \"results\": [\n", n, link->size());
  for (int i = 5; i < argc; ++i) {
    const Costs mine = rank.measure(argv[i], std::atoi(argv[3]), i);
    const auto all = rank.of_all(mine);
    if (speaks) print(argv[i], all, i + 1 == argc);
  }
  if (speaks) std::puts("]}");
  return 0;
}

}  // namespace
}  // namespace topknot

int main(int argc, char** argv) try {
  return topknot::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "integrity_mpi: %s\n", error.what());
  return 1;
}
