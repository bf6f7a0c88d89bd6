// SPDX-License-Identifier: Apache-2.0
//
// What the busiest rank sends, on every step, against the bound at the head of each
// algorithm's file: 32-bit words of pairs in plain coding, with headers and the words of
// agreement counted apart. k' is k rounded up to a multiple of P.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/primitives/message_channel.h"
#include "copy_of.h"
#include "core/random.h"
#include "core/wire/wire.h"
#include "ranks.h"
#include "topknot/catalog.h"
#include "transports/forwarding_transport.h"

namespace topknot::testing {
namespace {

enum class Gradient { correlated, uncorrelated, skewed };
constexpr Gradient kAll[] = {Gradient::correlated, Gradient::uncorrelated,
                             Gradient::skewed};

constexpr std::size_t kN = 40000;
constexpr std::size_t kK = 2000;
constexpr int kSteps = 12;

std::vector<float> gradient(Gradient kind, int rank, int step) {
  core::Random common(static_cast<std::uint64_t>(step) + 1);
  core::Random own(static_cast<std::uint64_t>(1000 * (rank + 1) + step));
  std::vector<float> x(kN);
  for (std::size_t i = 0; i < kN; ++i) {
    const float shared = common.laplace();
    const float mine = own.laplace();
    switch (kind) {
      case Gradient::correlated:
        x[i] = shared + mine;
        break;
      case Gradient::uncorrelated:
        x[i] = mine;
        break;
      // All that matters is in one place, which moves, and is another for some ranks.
      case Gradient::skewed:
        x[i] =
            mine * ((i / 2500 + static_cast<std::size_t>(step / 4 + rank / 3)) % 16 == 0
                        ? 1000.0F
                        : 0.01F);
        break;
    }
  }
  return x;
}

/// Passes everything on and sorts what is sent into pairs, headers and agreement.
class Scale final : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  /// Words of pairs since the last call.
  std::uint64_t take_pair_words() { return std::exchange(pair_bytes_, 0) / 4; }
  std::uint64_t agreement_words() const { return agreement_bytes_ / 4; }
  std::uint64_t headers() const { return headers_; }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return channel;
  }

  // A packet begins with its lengths, a message with its magic number.
  void on_sent(int, std::span<const std::byte> bytes) override {
    ++headers_;
    const bool packet =
        std::to_integer<int>(bytes[0]) != 'T' || std::to_integer<int>(bytes[1]) != 'K';
    if (packet) return weigh_packet(bytes);
    const bool words =
        (std::to_integer<int>(bytes[6]) & collective::MessageChannel::kWordsBit) != 0;
    (words ? agreement_bytes_ : pair_bytes_) += bytes.size() - core::kHeaderBytes;
  }

  void weigh_packet(std::span<const std::byte> bytes) {
    std::uint64_t lengths = 0;
    std::uint64_t messages = 0;
    while (lengths + messages * 8 < bytes.size()) {
      std::uint64_t length = 0;
      std::memcpy(&length, bytes.data() + messages * 8, 8);
      lengths += length;
      ++messages;
    }
    pair_bytes_ += lengths - messages * core::kHeaderBytes;
    headers_ += messages - 1;
  }

  std::uint64_t pair_bytes_ = 0;
  std::uint64_t agreement_bytes_ = 0;
  std::uint64_t headers_ = 0;
};

struct Measured {
  double busiest = 0;    // words, on the worst step
  double mean = 0;       // words, over ranks and steps
  double agreement = 0;  // words a step, at the busiest rank
};

Measured measure(const std::string& collective, int ranks, Gradient kind) {
  std::vector<std::vector<double>> words(static_cast<std::size_t>(ranks));
  std::vector<double> agreement(static_cast<std::size_t>(ranks));
  run(ranks, [&](Transport& link) {
    Scale scale(link);
    const auto rank = static_cast<std::size_t>(link.rank());
    const Layout layout = Layout::flat(kN);
    const auto compressor = make_compressor({"topk", {}}, layout);
    const auto made = make_collective(Spec::parse(collective + ":coding=plain"), scale,
                                      *compressor, layout);
    std::vector<float> residual(kN);
    std::vector<float> sum(kN);
    for (int step = 0; step < kSteps; ++step) {
      const Reduced reduced =
          made->reduce(residual, copy_of(gradient(kind, link.rank(), step)), kK, sum);
      for (const std::uint32_t i : reduced.index) sum[i] = 0;
      words[rank].push_back(static_cast<double>(scale.take_pair_words()));
    }
    agreement[rank] = static_cast<double>(scale.agreement_words()) / kSteps;
  });
  Measured measured;
  for (const auto& steps : words) {
    measured.busiest =
        std::max(measured.busiest, *std::max_element(steps.begin(), steps.end()));
    measured.mean += std::accumulate(steps.begin(), steps.end(), 0.0) / kSteps / ranks;
  }
  measured.agreement = *std::max_element(agreement.begin(), agreement.end());
  return measured;
}

struct Bound {
  std::string collective;
  std::function<double(double k, double ranks)> busiest;  // of k'
  std::function<double(double k, double ranks)> mean;     // of k
};

class Volume : public ::testing::TestWithParam<Bound> {};

TEST_P(Volume, StaysWithinTheBoundOnEveryStep) {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    const double k_up = static_cast<double>((kK + static_cast<std::size_t>(ranks) - 1) /
                                            static_cast<std::size_t>(ranks) *
                                            static_cast<std::size_t>(ranks));
    for (const Gradient kind : kAll) {
      SCOPED_TRACE("P=" + std::to_string(ranks) + " gradient " +
                   std::to_string(static_cast<int>(kind)));
      const Measured measured = measure(GetParam().collective, ranks, kind);
      EXPECT_LE(measured.busiest, GetParam().busiest(k_up, ranks));
      if (kind == Gradient::skewed) continue;
      const double expected = GetParam().mean(kK, ranks);
      EXPECT_NEAR(measured.mean, expected, 0.02 * expected);
      RecordProperty("agreement_words_P" + std::to_string(ranks),
                     static_cast<int>(measured.agreement));
    }
  }
}

const auto k4k = [](double k, double ranks) { return 4 * k * (ranks - 1) / ranks; };

const auto k3k = [](double k, double ranks) { return 3 * k * (ranks - 1) / ranks; };
const auto kSharedIndexSum = [](double k, double ranks) {
  return k + 2 * k * (ranks - 1) / ranks;
};

INSTANTIATE_TEST_SUITE_P(
    Collectives, Volume,
    ::testing::Values(Bound{"oktopk", [](double k, double) { return 6 * k; }, k4k},
                      Bound{"knot", [](double k, double) { return 4 * k; }, k4k},
                      Bound{"spardl", k4k, k4k}, Bound{"exdyna", kSharedIndexSum, k3k},
                      Bound{"micro", kSharedIndexSum, k3k}),
    [](const auto& test) { return test.param.collective; });

}  // namespace
}  // namespace topknot::testing
