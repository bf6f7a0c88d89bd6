// SPDX-License-Identifier: Apache-2.0
//
// Which messages does one step of a collective send? Prints them as JSON, for the pictures of
// docs/communication.md (scripts/communication_pictures.py).
//
//   messages RANKS N DENSITY [COLLECTIVE...]     all of the catalog where none is named
//
// Ranks are threads; the first half of them counts as one host and the second as another. The third
// step is shown: by then an algorithm has the state that it lives with. A message is in round
// r when the longest chain of messages that had to arrive before it was sent has r - 1 of them: so
// rounds are what latency is paid for, whatever the clock said.

#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/random.h"
#include "topknot/catalog.h"
#include "topknot/schedule.h"
#include "topknot/transports.h"
#include "transports/forwarding_transport.h"

namespace topknot {
namespace {

constexpr int kSteps = 3;

struct SentMessage {
  int round;
  int from;
  int to;
  std::size_t bytes;
};

/// Of all ranks together.
struct Log {
  std::mutex mutex;
  std::vector<SentMessage> messages;
  std::map<std::pair<int, int>, std::vector<int>> rounds;  // by sender and receiver
};

class Recorded final : public ForwardingTransport {
 public:
  Recorded(Transport& link, Log& log) : ForwardingTransport(link), log_(log) {}

  Pending send(int to, std::span<const std::byte> bytes) override {
    note(to, bytes.size());
    return ForwardingTransport::send(to, bytes);
  }
  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    note(to, bytes->size());
    return ForwardingTransport::send_shared(to, std::move(bytes));
  }
  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    const Pending message = ForwardingTransport::recv(from, into, limit);
    awaited_.emplace(message, std::pair(from, received_[from]++));
    return message;
  }
  void wait(Pending message) override {
    link().wait(message);
    const auto found = awaited_.find(message);
    if (found == awaited_.end()) return;  // one that was sent
    const auto [from, number] = found->second;
    awaited_.erase(found);
    const std::scoped_lock lock(log_.mutex);
    round_ = std::max(round_, log_.rounds[{from, rank()}].at(number));
  }
  int node_of(int rank) const noexcept override { return 2 * rank / size(); }

  void begin_step() {
    round_ = 0;
    received_.clear();
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return channel;  // collectives take none
  }
  // Before it is sent: the receiver may have it at once.
  void note(int to, std::size_t bytes) {
    const std::scoped_lock lock(log_.mutex);
    log_.messages.push_back({round_ + 1, rank(), to, bytes});
    log_.rounds[{rank(), to}].push_back(round_ + 1);
  }

  Log& log_;
  int round_ = 0;                                  // the latest that has arrived here
  std::unordered_map<int, std::size_t> received_;  // by sender
  std::unordered_map<Pending, std::pair<int, std::size_t>> awaited_;
};

/// Half of a gradient is common to all ranks, as those of one model on different data.
void draw(std::vector<float>& gradient, int rank, int step) {
  core::Random own(static_cast<std::uint64_t>(1000 * step + rank + 1));
  core::Random common(static_cast<std::uint64_t>(1000 * step));
  for (float& g : gradient) g = common.laplace() + own.laplace();
}

std::vector<SentMessage> messages_of(const std::string& collective, int ranks,
                                     std::size_t n, double density) {
  auto links = make_inproc(ranks);
  Log log;
  std::barrier together(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Recorded link(*links[static_cast<std::size_t>(rank)], log);
      const Layout layout = Layout::flat(n);
      const Spec spec = Spec::parse(collective);
      const auto compressor = make_compressor(
          with_shared(Spec::parse(default_compressor(spec.name)), spec), layout);
      const auto made = make_collective(spec, link, *compressor, layout);
      std::vector<float> residual(made->keeps_residual() ? n : 0);
      std::vector<float> gradient(n);
      std::vector<float> sum(n);
      for (int step = 0; step < kSteps; ++step) {
        draw(gradient, rank, step);
        together.arrive_and_wait();
        if (rank == 0) {
          log.messages.clear();
          log.rounds.clear();
        }
        link.begin_step();
        together.arrive_and_wait();
        std::fill(sum.begin(), sum.end(), 0.0F);
        compressor->expect(coordinates_for(n, density), density);
        made->reduce(residual, gradient, coordinates_for(n, density), sum);
        together.arrive_and_wait();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return log.messages;
}

void print(const std::string& name, const std::vector<SentMessage>& messages,
           bool first) {
  std::printf("%s\n{\"name\":\"%s\",\"messages\":[", first ? "" : ",", name.c_str());
  const char* between = "";
  for (const SentMessage& one : messages) {
    std::printf("%s[%d,%d,%d,%zu]", between, one.round, one.from, one.to, one.bytes);
    between = ",";
  }
  std::printf("]}");
}

}  // namespace
}  // namespace topknot

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: messages RANKS N DENSITY [COLLECTIVE...]\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  const auto n = static_cast<std::size_t>(std::atoll(argv[2]));
  const double density = std::atof(argv[3]);
  std::vector<std::string> names(argv + 4, argv + argc);
  if (names.empty())
    for (const auto& entry : topknot::collectives()) names.emplace_back(entry.name);
  std::printf("{\"ranks\":%d,\"n\":%zu,\"density\":%g,\"collectives\":[", ranks, n,
              density);
  for (const std::string& name : names)
    topknot::print(name, topknot::messages_of(name, ranks, n, density),
                   &name == &names.front());
  std::printf("\n]}\n");
  return 0;
}
