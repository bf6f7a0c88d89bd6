// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_optimizer.h"

#include <fmt/core.h>

#include <algorithm>

#include "engine/bucket.h"
#include "job/optimizer.h"
#include "sim/gradient.h"
#include "topknot/transports.h"

namespace topknot::cli {
namespace {

constexpr double kRate = 1e-6;
constexpr int kWarmUp = 10;

/// A loop over vectors of one length that reads and writes each of them once.
class Stream {
 public:
  explicit Stream(std::size_t n) : n_(n) {}

  void reads_and_writes() { add(vectors_.size(), vectors_.size(), 1); }
  void reads_one_and_writes_another() { add(vectors_.size(), vectors_.size() + 1, 2); }

  /// A block at a time: as many vectors at once as a step of an optimizer has.
  void run() {
    constexpr std::size_t kBlock = 1024;
    for (std::size_t first = 0; first < n_; first += kBlock) {
      const std::size_t last = std::min(n_, first + kBlock);
      for (const auto& [from, to] : pairs_)
        scale(vectors_[from], vectors_[to], first, last);
    }
  }
  std::size_t vectors() const { return vectors_.size(); }

 private:
  struct Pair {
    std::size_t from;
    std::size_t to;
  };

  static void scale(const std::vector<float>& from, std::vector<float>& to,
                    std::size_t first, std::size_t last) {
    const float* const in = from.data();
    float* const out = to.data();
    for (std::size_t i = first; i < last; ++i) out[i] = in[i] * 0.5F + 1;
  }
  void add(std::size_t from, std::size_t to, std::size_t vectors) {
    for (std::size_t i = 0; i < vectors; ++i) vectors_.emplace_back(n_, 1.0F);
    pairs_.push_back({from, to});
  }

  const std::size_t n_;
  std::vector<std::vector<float>> vectors_;
  std::vector<Pair> pairs_;
};

/// Calls `prepare`, which is not timed, `work` and the stream in turn.
template <typename Prepare, typename Work>
Json measure(std::string_view row, Stream& stream, int steps, Prepare prepare,
             Work work) {
  std::vector<double> worked;
  std::vector<double> streamed;
  for (int step = -kWarmUp; step < steps; ++step) {
    prepare();
    const double a = seconds_of(work);
    const double b = seconds_of([&] { stream.run(); });
    if (step < 0) continue;
    worked.push_back(a);
    streamed.push_back(b);
  }
  return {{"row", row},
          {"vectors", stream.vectors()},
          {"seconds", median(worked)},
          {"stream_seconds", median(streamed)},
          {"ratio", median(worked) / median(streamed)}};
}

Json local_step(const Spec& spec, std::span<const float> gradient, int steps) {
  const std::size_t sizes[] = {gradient.size()};
  const auto optimizer = train::make_optimizer(spec, sizes);
  std::vector<float> weight(gradient.size(), 1);
  Stream stream(gradient.size());
  stream.reads_one_and_writes_another();  // gradient and weights, which are read as well
  for (std::size_t slot = 0; slot < optimizer->slots().size(); ++slot)
    stream.reads_and_writes();
  return measure(
      "local step", stream, steps, [] {},
      [&] {
        optimizer->begin_step();
        optimizer->apply(0, weight, gradient, {.lr = kRate});
      });
}

Json every_step(const Spec& spec, std::span<const float> gradient, std::size_t k,
                int steps) {
  const bool adam = spec.name != "sgd";
  const auto alone = make_inproc(1);
  engine::Bucket bucket(
      bench_layout(gradient.size()),
      {{adam ? "adam" : "momentum", spec.params}, {"topk", {}}, {"topka", {}}}, *alone[0],
      0);
  std::vector<float> used(gradient.size());
  std::vector<float> sum(gradient.size());
  Stream stream(gradient.size());
  stream.reads_one_and_writes_another();  // the first moment and the next
  stream.reads_and_writes();              // the gradient, which becomes the move
  stream.reads_and_writes();              // the residual
  if (adam) stream.reads_and_writes();    // the squares
  const auto copy = [&] { std::ranges::copy(gradient, used.begin()); };
  return measure("every step", stream, steps, copy,
                 [&] { bucket.step(used, k, sum, kRate); });
}

}  // namespace

Json measure_optimizers(const Problem& problem,
                        const std::vector<std::string>& optimizers, int steps) {
  problem.check();
  std::vector<float> gradient(problem.n);
  sim::fill_gradient(gradient, 0, 0, 0);
  Json results = Json::array();
  for (const std::string& name : optimizers) {
    const Spec spec = Spec::parse(name);
    for (Json row : {local_step(spec, gradient, steps),
                     every_step(spec, gradient, problem.k(), steps)}) {
      row["optimizer"] = name;
      results.push_back(row);
    }
  }
  return {{"n", problem.n}, {"density", problem.density}, {"results", results}};
}

void print_optimizers(const Json& all) {
  fmt::print(
      "# n {}, density {}, one thread; the stream reads and writes the same vectors "
      "once\n",
      all["n"].get<std::uint64_t>(), all["density"].get<double>());
  fmt::print("# {:<20}{:<14}{:>8}{:>12}{:>14}{:>10}\n", "optimizer", "step", "vectors",
             "time (ms)", "stream (ms)", "ratio");
  for (const Json& one : all["results"])
    fmt::print("  {:<20}{:<14}{:>8}{:>12.3f}{:>14.3f}{:>10.3f}\n",
               one["optimizer"].get<std::string>(), one["row"].get<std::string>(),
               one["vectors"].get<std::size_t>(), 1e3 * one["seconds"].get<double>(),
               1e3 * one["stream_seconds"].get<double>(), one["ratio"].get<double>());
}

}  // namespace topknot::cli
