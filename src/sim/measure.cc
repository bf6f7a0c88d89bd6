// SPDX-License-Identifier: Apache-2.0
//
// measure(): the network by messages round a ring, all ranks at once, as collectives use it; the
// work of a scheme by whole steps, in processor time, of which what went into messages is taken off.
#include "sim/measure.h"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "engine/bucket.h"
#include "sim/gradient.h"
#include "transports/control_channel.h"
#include "transports/forwarding_transport.h"

namespace topknot::sim {
namespace {

constexpr double kDensities[] = {0.002, 0.01, 0.05};
constexpr int kSteps = 5;

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// The mean over the ranks, the same on all of them.
double agree(ControlChannel& control, double x) {
  double sum = 0;
  const auto all = control.gather(std::vector<double>{x});
  for (const auto& of_rank : all) sum += of_rank[0];
  return sum / static_cast<double>(all.size());
}

/// Of each step the slowest rank's time, for which the others wait; of these the median. The same
/// on all ranks.
double slowest(ControlChannel& control, const std::vector<double>& seconds) {
  std::vector<double> steps = seconds;
  for (const auto& of_rank : control.gather(seconds))
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i] = std::max(steps[i], of_rank[i]);
  return median(std::move(steps));
}

class Ring {
 public:
  explicit Ring(Transport& link)
      : link_(link),
        next_((link.rank() + 1) % link.size()),
        last_((link.rank() + link.size() - 1) % link.size()) {}

  /// The seconds of a round in which each rank sends `messages` of `bytes` at once.
  double round(std::size_t bytes, int messages) {
    const std::vector<std::byte> out(bytes);
    std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(messages));
    const double start = link_.now();
    std::vector<Pending> pending;
    for (std::vector<std::byte>& one : in)
      pending.push_back(link_.recv(last_, one, bytes));
    for (int i = 0; i < messages; ++i) pending.push_back(link_.send(next_, out));
    for (const Pending one : pending) link_.wait(one);
    return link_.now() - start;
  }

  double typical(std::size_t bytes, int messages, int rounds) {
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) seconds.push_back(round(bytes, messages));
    return median(seconds);
  }

 private:
  Transport& link_;
  const int next_;
  const int last_;
};

/// The cores that the ranks share, where all are on one machine and outnumber its cores. A kernel has
/// an id, whatever its hosts are called; hosts of several namespaces have one kernel.
Cores shared_cores(const Transport& link, ControlChannel& control) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (!std::getline(file, id)) id = std::to_string(link.node_of(link.rank()));
  const std::uint64_t mine = core::hash(std::as_bytes(std::span(id)));
  for (const auto& of_rank : control.gather(std::vector<std::uint64_t>{mine}))
    if (of_rank[0] != mine) return {};
  const auto count = static_cast<int>(std::thread::hardware_concurrency());
  return {.count = count < link.size() ? count : 0};
}

/// Adds up the processor time that goes into messages.
class MessageTime final : public ForwardingTransport {
 public:
  MessageTime(Transport& link, const ProcessorClock& processor, double& seconds)
      : ForwardingTransport(link), processor_(processor), seconds_(seconds) {}
  MessageTime(std::unique_ptr<Transport> link, const ProcessorClock& processor,
              double& seconds)
      : ForwardingTransport(std::move(link)), processor_(processor), seconds_(seconds) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    const Count count(*this);
    return ForwardingTransport::send(to, bytes);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const Count count(*this);
    return ForwardingTransport::send_shared(to, std::move(bytes));
  }
  void wait(Pending message) override {
    const Count count(*this);
    ForwardingTransport::wait(message);
  }

 private:
  struct Count {
    explicit Count(MessageTime& owner) : meter(owner), start(owner.processor_()) {}
    ~Count() { meter.seconds_ += meter.processor_() - start; }
    MessageTime& meter;
    const double start;
  };

  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<MessageTime>(std::move(channel), processor_, seconds_);
  }

  const ProcessorClock& processor_;
  double& seconds_;
};

// All ranks send at once, so that those which share cores take turns: a rank's own time for a message
// is its share of what passes.
LinkSpeed measure_network(Transport& link, ControlChannel& control, const Cores& cores) {
  constexpr int kMany = 32;
  constexpr std::size_t kLong = std::size_t{4} << 20;
  if (link.size() == 1) return {};
  Ring ring(link);
  ring.typical(64, 1, 20);  // connections are made by the first messages
  const double one = agree(control, ring.typical(64, 1, 101));
  const double many = agree(control, ring.typical(64, kMany, 21));
  const double own_share =
      cores.count > 0 ? static_cast<double>(cores.count) / link.size() : 1;
  const double overhead = std::max((many - one) / (kMany - 1), 0.0) * own_share;
  const double large = agree(control, ring.typical(kLong, 1, 5));
  const double latency = std::max(one - overhead, 0.0);
  return {.bandwidth = static_cast<double>(kLong) / std::max(large - one, 1e-9),
          .latency = latency,
          .overhead = overhead};
}

/// The work of one rank in a step of `candidate`: at several densities, unless it has one of its
/// own.
std::vector<WorkSample> sample_work(Transport& link, ControlChannel& control, int channel,
                                    const Candidate& candidate, std::size_t n,
                                    const ProcessorClock& processor) {
  std::vector<float> source(n);
  fill_gradient(source, link.rank(), 0, 0.5);
  std::vector<WorkSample> samples;
  const bool has_its_own = candidate.every > 1 || candidate.is_dense();
  const std::span<const double> densities = has_its_own
                                                ? std::span(&candidate.density, 1)
                                                : std::span<const double>(kDensities);
  double in_messages = 0;
  MessageTime metered(link, processor, in_messages);
  for (const double density : densities) {
    engine::Bucket bucket(Layout::flat(n), candidate.recipe, metered, channel++);
    const auto k = static_cast<std::size_t>(density * static_cast<double>(n));
    std::vector<float> gradient(n);
    std::vector<double> seconds;
    double bytes = 0;
    for (int step = 0; step < kSteps; ++step) {
      gradient = source;
      control.barrier();
      in_messages = 0;
      const double start = processor();
      const StepTrace trace = bucket.step(gradient, k, gradient, 1, density);
      const double work = processor() - start - in_messages;
      if (step == 0) continue;  // finds thresholds and allocates
      seconds.push_back(work);
      bytes = static_cast<double>(trace.sent_bytes);
    }
    samples.push_back({static_cast<double>(n), agree(control, bytes),
                       std::max(slowest(control, seconds), 1e-9)});
  }
  return samples;
}

}  // namespace

ProcessorClock thread_clock() {
  return [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
}

Calibration measure(Transport& link, std::span<const Candidate> candidates,
                    std::size_t coordinates, const std::function<void()>& progress,
                    const ProcessorClock& processor) {
  // Above all that buckets and their users take.
  constexpr int kFirstChannel = 5000;
  ControlChannel control(link);
  Calibration calibration;
  calibration.cores = shared_cores(link, control);
  calibration.link = measure_network(link, control, calibration.cores);
  int channel = kFirstChannel;
  for (const Candidate& candidate : candidates) {
    if (calibration.by_scheme.contains(candidate.scheme)) continue;
    calibration.by_scheme[candidate.scheme] =
        fit(sample_work(link, control, channel, candidate, coordinates, processor));
    channel += static_cast<int>(std::size(kDensities));
    progress();
  }
  return calibration;
}

}  // namespace topknot::sim
