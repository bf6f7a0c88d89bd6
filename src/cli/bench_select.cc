// SPDX-License-Identifier: Apache-2.0
//
// bench select: one rank's local step (fold, select, clear what was sent) against a plain
// r[i] += g[i] over the same gradients, and bench step: the same step as a bucket of the
// engine takes it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "cli/bench.h"
#include "cli/bench_optimizer.h"
#include "cli/commands.h"
#include "cli/gradients.h"
#include "cli/help.h"
#include "core/merge.h"
#include "core/select.h"
#include "engine/bucket.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr int kWarmUp = 4;
constexpr int kSettlingSteps = 100;

struct Options {
  Problem problem;
  Gradients gradients;
  std::vector<std::string> compressors = {"all"};
  std::string memory = "residual";
  int steps = 15;
};

void stream_add(std::span<float> r, std::span<const float> g) {
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += g[i];
}

/// The arrays of one run: gradients, and a residual as it is after many steps, or none at all.
class Workbench {
 public:
  explicit Workbench(const Options& options)
      : k_(options.problem.k()),
        density_(options.problem.density),
        remembers_(options.memory == "residual"),
        layout_(options.gradients.layout_or(bench_layout(options.problem.n))),
        gradients_(options.gradients.of_rank(0, options.problem.n, 0)),
        settled_(options.problem.n) {
    if (!remembers_) return;
    Progress progress("preparing gradients", kSettlingSteps);
    const auto topk = make_compressor({"topk", {}}, layout_);
    Sparse sent;
    std::vector<float> gradient;
    for (int step = 0; step < kSettlingSteps; ++step) {
      copy_gradient(step, gradient);
      local_step(*topk, settled_, gradient, sent);
      progress.step();
    }
  }

  /// The gradient is used up.
  void local_step(Compressor& selector, std::span<float> residual,
                  std::span<float> gradient, Sparse& sent) const {
    selector.expect(k_, density_);
    if (!selector.select(residual, gradient, k_, sent))
      throw ContractError("a finite gradient was called not finite");
    core::erase(sent.index, residual);
  }

  /// Before a step: without memory the residual is zero.
  void forget(std::span<float> residual) const {
    if (!remembers_) std::ranges::fill(residual, 0.0F);
  }

  std::span<const float> gradient(int step) const {
    return gradients_[static_cast<std::size_t>(step) % gradients_.size()];
  }
  void copy_gradient(int step, std::vector<float>& into) const {
    const std::span<const float> from = gradient(step);
    into.assign(from.begin(), from.end());
  }
  const std::vector<float>& settled() const { return settled_; }
  const Layout& layout() const { return layout_; }
  std::size_t k() const { return k_; }

 private:
  std::size_t k_;
  double density_;
  bool remembers_;
  Layout layout_;
  std::vector<std::vector<float>> gradients_;
  std::vector<float> settled_;
};

/// Whether `sent` are the k largest of `before` plus `grad`.
bool is_exact(std::span<const float> before, std::span<const float> grad, std::size_t k,
              const Sparse& sent) {
  std::vector<float> magnitudes(before.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    magnitudes[i] = std::abs(before[i] + grad[i]);
  std::vector<float> sorted = magnitudes;
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  return sent.size() == k &&
         std::all_of(sent.index.begin(), sent.index.end(),
                     [&](std::uint32_t i) { return magnitudes[i] >= *kth; });
}

/// What exdyna and micro do on each step, as one of four ranks: fold everything, select in
/// a quarter of it by a threshold. Not a compressor of the catalog, for it sees a part.
class PartitionScan final : public Compressor {
 public:
  bool select(std::span<float> residual, std::span<float> grad, std::size_t k,
              Sparse& out) override {
    const std::size_t part = residual.size() / 4;
    const bool well = core::fold(residual.subspan(part), grad.subspan(part));
    return scan_->select(residual.first(part), grad.first(part), k / 4, out) && well;
  }

 private:
  std::unique_ptr<Compressor> scan_ = make_compressor({"reuse", {}}, Layout::flat(0));
};

constexpr const char* kPartitionScan = "partition-scan";

std::unique_ptr<Compressor> make_local(const std::string& name, const Layout& layout) {
  if (name == kPartitionScan) return std::make_unique<PartitionScan>();
  return make_compressor(Spec::parse(name), layout);
}

/// The smallest magnitude that was selected; null when nothing was.
Json threshold_of(const Sparse& sent) {
  if (sent.empty()) return nullptr;
  const auto smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
  return std::abs(*std::ranges::min_element(sent.value, smaller));
}

struct Times {
  std::vector<double> add;
  std::vector<double> copy;
};

Json measure(const Workbench& bench, const std::string& name, int steps, Times& times,
             std::vector<float>& twin) {
  const auto selector = make_local(name, bench.layout());
  std::vector<float> residual = bench.settled();
  std::vector<float> gradient;
  Sparse sent;
  int step = kSettlingSteps;
  for (int warm_up = 0; warm_up < kWarmUp; ++warm_up) {
    bench.forget(residual);
    bench.copy_gradient(step++, gradient);
    bench.local_step(*selector, residual, gradient, sent);
  }

  bench.forget(residual);
  std::vector<float> before = residual;
  bench.copy_gradient(step, gradient);
  bench.local_step(*selector, residual, gradient, sent);
  const bool exact = is_exact(before, bench.gradient(step), bench.k(), sent);
  ++step;
  before = {};

  std::vector<double> seconds;
  double selected = 0;
  Progress progress(name, static_cast<std::size_t>(steps));
  for (int timed = 0; timed < steps; ++timed, ++step) {
    bench.forget(residual);
    times.add.push_back(seconds_of([&] { stream_add(twin, bench.gradient(step)); }));
    bench.copy_gradient(step, gradient);
    seconds.push_back(
        seconds_of([&] { bench.local_step(*selector, residual, gradient, sent); }));
    selected += static_cast<double>(sent.size());
    const auto source = bench.gradient(step + 2);
    times.copy.push_back(seconds_of(
        [&] { std::memcpy(twin.data(), source.data(), source.size() * sizeof(float)); }));
    progress.step();
  }
  return {{"compressor", name},
          {"seconds", median(seconds)},
          {"density_got", selected / steps / static_cast<double>(residual.size())},
          {"threshold", threshold_of(sent)},
          {"exact", exact}};
}

std::vector<std::string> all_compressors() {
  std::vector<std::string> names;
  for (const CompressorEntry& entry : compressors()) names.emplace_back(entry.name);
  names.emplace_back(kPartitionScan);
  return names;
}

Json run_select(Options& options) {
  options.gradients.open(options.problem);
  options.problem.check();
  const std::vector<std::string> names = expand(options.compressors, all_compressors());
  for (const std::string& name : names)
    make_local(name, bench_layout(1));  // throws for a bad name before the work
  const Workbench bench(options);
  std::vector<float> twin = bench.settled();
  Times times;
  Json results = Json::array();
  for (const std::string& name : names)
    results.push_back(measure(bench, name, options.steps, times, twin));
  const double add = median(times.add);
  for (Json& one : results)
    one["ratio_to_stream_add"] = one["seconds"].get<double>() / add;
  return {{"n", options.problem.n},
          {"density", options.problem.density},
          {"gradients", options.gradients.about()},
          {"memory", options.memory},
          {"stream_add_seconds", add},
          {"memcpy_seconds", median(times.copy)},
          {"results", results}};
}

void print_select(const Options& options, const Json& all) {
  if (options.gradients.recorded()) fmt::print("# {}\n", options.gradients.summary());
  fmt::print("# n {}, density {}, memory {}, one thread; ", all["n"].get<std::uint64_t>(),
             all["density"].get<double>(), all["memory"].get<std::string>());
  fmt::print("stream add {:.3f} ms, memcpy {:.3f} ms\n",
             1e3 * all["stream_add_seconds"].get<double>(),
             1e3 * all["memcpy_seconds"].get<double>());
  fmt::print("# {:<22}{:>10}{:>14}{:>12}{:>14}{:>8}\n", "compressor", "time (ms)",
             "x stream add", "density", "threshold", "exact");
  for (const Json& one : all["results"])
    fmt::print("  {:<22}{:>10.3f}{:>14.3f}{:>12.6f}{:>14}{:>8}\n",
               one["compressor"].get<std::string>(), 1e3 * one["seconds"].get<double>(),
               one["ratio_to_stream_add"].get<double>(), one["density_got"].get<double>(),
               one["threshold"].is_null()
                   ? "-"
                   : fmt::format("{:.4g}", one["threshold"].get<double>()),
               one["exact"].get<bool>() ? "yes" : "no");
}

/// The local step and the bucket's step, in turn, on the same gradients.
Json run_step(const Options& options, const std::string& compressor) {
  options.problem.check();
  const Workbench bench(options);
  const Layout layout = bench_layout(options.problem.n);
  const auto alone = make_inproc(1);
  const auto selector = make_compressor(Spec::parse(compressor), layout);
  engine::Bucket bucket(
      layout, {{"residual", {}}, Spec::parse(compressor), {"topka", {}}}, *alone[0], 0);
  std::vector<float> residual(options.problem.n);
  std::vector<float> sum(options.problem.n);
  std::vector<float> gradient(options.problem.n);
  std::vector<double> local;
  std::vector<double> whole;
  Sparse sent;
  Progress progress("bench step",
                    static_cast<std::size_t>(kSettlingSteps + options.steps));
  for (int step = 0; step < kSettlingSteps + options.steps; ++step) {
    const bool timed = step >= kSettlingSteps;
    bench.copy_gradient(step, gradient);
    const double a =
        seconds_of([&] { bench.local_step(*selector, residual, gradient, sent); });
    bench.copy_gradient(step, gradient);
    const double b = seconds_of([&] { bucket.step(gradient, bench.k(), sum); });
    if (timed) local.push_back(a);
    if (timed) whole.push_back(b);
    progress.step();
  }
  return {{"n", options.problem.n},        {"density", options.problem.density},
          {"compressor", compressor},      {"select_seconds", median(local)},
          {"step_seconds", median(whole)}, {"ratio", median(whole) / median(local)}};
}

void add_steps(CLI::App& command, int& steps) {
  command.add_option("--steps", steps, "Steps to time")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
}

}  // namespace

void add_bench_select(CLI::App& bench, int&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "select", "A local step of each compressor against a plain r[i] += g[i]");
  options->problem.add_to(*command, 1 << 25);
  command
      ->add_option("--compressor", options->compressors,
                   "Names with parameters, with commas between, partition-scan, or all")
      ->type_name("COMPRESSOR")
      ->capture_default_str();
  command
      ->add_option("--memory", options->memory,
                   "residual: what was not sent is added to the next gradient; none")
      ->type_name("residual|none")
      ->capture_default_str()
      ->check(CLI::IsMember({"residual", "none"}));
  add_steps(*command, options->steps);
  options->gradients.add_to(*command);
  add_examples(*command, "bench select --n 32Mi --density 0.01",
               "bench select --compressor topk,dgc,sidco --gradients g.safetensors");
  command->callback([options] {
    const Json all = run_select(*options);
    options->problem.json
        ? fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace))
        : print_select(*options, all);
  });
}

void add_bench_step(CLI::App& bench, int&) {
  auto options = std::make_shared<Options>();
  auto compressor = std::make_shared<std::string>("topk");
  CLI::App* command = bench.add_subcommand(
      "step", "A bucket's whole step on one rank against the local step it contains");
  options->problem.add_to(*command, 1 << 25);
  command->add_option("--compressor", *compressor, "Name with parameters")
      ->type_name("COMPRESSOR")
      ->capture_default_str();
  auto optimizers = std::make_shared<std::vector<std::string>>();
  command->add_option(
      "--optimizer", *optimizers,
      "Steps of sgd or adam instead, with parameters, against a plain loop "
      "over their vectors");
  add_steps(*command, options->steps);
  add_examples(*command, "bench step --n 32Mi", "bench step --optimizer adam --json");
  command->callback([options, compressor, optimizers] {
    const bool optimizer = !optimizers->empty();
    const Json all =
        optimizer ? measure_optimizers(options->problem, *optimizers, options->steps)
                  : run_step(*options, *compressor);
    if (options->problem.json)
      return fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
    if (optimizer) return print_optimizers(all);
    fmt::print("local step {:.3f} ms, bucket step {:.3f} ms, ratio {:.3f}\n",
               1e3 * all["select_seconds"].get<double>(),
               1e3 * all["step_seconds"].get<double>(), all["ratio"].get<double>());
  });
}

}  // namespace topknot::cli
