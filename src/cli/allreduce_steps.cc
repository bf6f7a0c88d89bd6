// SPDX-License-Identifier: Apache-2.0
#include "cli/allreduce_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "collectives/primitives/rank_order_sum.h"
#include "core/hash.h"
#include "core/random.h"
#include "engine/bucket.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

using Options = AllreduceOptions;
using Row = AllreduceRow;

constexpr int kCheckedSteps = 2;

/// Where several collectives are compared, those that cannot use the compressor asked for
/// use their own; where one alone is measured, it is refused.
engine::Recipe recipe(const Options& options, const std::string& collective) {
  const Spec spec = parse_collective(collective);
  const Spec own = Spec::parse(default_compressor(spec.name));
  if (options.compressor.empty()) return {{"residual", {}}, with_shared(own, spec), spec};
  const Spec asked = parse_compressor(options.compressor);
  try {
    check_pair(asked, spec);
  } catch (const ConfigError&) {
    if (options.collectives.size() == 1 && options.collectives[0] == collective) throw;
    return {{"residual", {}}, own, spec};
  }
  return {{"residual", {}}, with_shared(asked, spec), spec};
}

/// The law on integer-valued gradients, for which == may be used: summed over the ranks,
/// residual before + gradient - residual after is the sum. All ranks get the same row.
void check_law(Transport& link, const Options& options, const std::string& collective,
               int channel, Row& row) {
  const std::size_t n = options.problem.n;
  const Layout layout = options.gradients.layout_or(Layout::flat(n));
  const engine::Recipe parts = recipe(options, collective);
  const auto own = link.channel(channel);
  const auto compressor = make_compressor(parts.compressor, layout);
  const auto made = make_collective(parts.collective, *own, *compressor, layout);
  Params plain;
  const auto audit = link.channel(channel + 1);
  collective::MessageChannel auditor(*audit, "audit", plain);
  std::vector<float> residual(n);
  std::vector<float> gradient(n);
  std::vector<float> settled(n);
  for (int step = 0; step < kCheckedSteps; ++step) {
    core::Random random(static_cast<std::uint64_t>(step) * 4096 +
                        static_cast<std::uint64_t>(link.rank()));
    for (float& value : gradient) value = std::trunc(16 * random.laplace());
    for (std::size_t i = 0; i < n; ++i) settled[i] = residual[i] + gradient[i];
    const Reduced reduced =
        made->reduce(residual, gradient, options.problem.k(), gradient);
    if (!reduced.finite) throw ContractError("a finite gradient was called not finite");
    for (std::size_t i = 0; i < n; ++i) settled[i] -= residual[i];
    auditor.begin(n, n);
    std::vector<float> nothing;
    collective::RankOrderSum().run(auditor, settled, nothing);
    for (std::size_t i = 0; i < n; ++i) {
      const double lost = std::abs(static_cast<double>(settled[i]) - gradient[i]);
      row.lost = std::max(row.lost, lost);
      row.wrong += lost != 0 ? 1 : 0;
    }
    const auto hashes = ControlChannel(link).gather(
        std::vector<std::uint64_t>{core::hash(std::as_bytes(std::span(gradient)))});
    for (const auto& hash : hashes) row.agree &= hash == hashes.front();
  }
}

/// What one rank measured in one step.
struct Measured {
  double seconds;
  double select_seconds;
  double wait_seconds;
  double messages;
  double count;
};

/// The slowest rank's time of a step, which 99 % of the steps do not exceed.
double late_step(const std::vector<std::vector<Measured>>& ranks) {
  std::vector<double> steps(ranks.front().size());
  for (const auto& rank : ranks)
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i] = std::max(steps[i], rank[i].seconds);
  std::ranges::sort(steps);
  return steps[(steps.size() * 99 + 99) / 100 - 1];
}

/// Times whole steps: the slowest rank's time is the step's, and the median step counts.
void time_steps(Transport& link, const Options& options, const std::string& collective,
                int channel, const std::vector<std::vector<float>>& gradients, Row& row) {
  const std::size_t n = options.problem.n;
  const engine::Recipe parts = recipe(options, collective);
  engine::Bucket bucket(options.gradients.layout_or(Layout::flat(n)), parts, link,
                        channel);
  const bool in_place = options.in_place || parts.collective.name == "dense";
  std::vector<float> sum(in_place ? 0 : n);
  std::vector<float> gradient(n);
  ControlChannel control(link);
  std::vector<Measured> measured;
  std::vector<std::uint64_t> sent_before;
  Progress progress(link.rank() == 0 ? collective : "",
                    static_cast<std::size_t>(options.warm_up + options.steps));
  for (int step = 0; step < options.warm_up + options.steps; ++step) {
    std::ranges::copy(gradients[static_cast<std::size_t>(step) % gradients.size()],
                      gradient.begin());
    if (step == options.warm_up) sent_before = bucket.traffic().bytes_to;
    control.barrier();
    const StepTrace trace =
        bucket.step(gradient, options.problem.k(), in_place ? gradient : sum, 1,
                    options.problem.density);
    if (step >= options.warm_up)
      measured.push_back({trace.seconds, trace.select_seconds, trace.wait_seconds,
                          static_cast<double>(trace.sent_messages),
                          static_cast<double>(trace.count)});
    if (link.rank() == 0) progress.step();
  }
  std::vector<double> sent_to;
  for (std::size_t peer = 0; peer < bucket.traffic().bytes_to.size(); ++peer)
    sent_to.push_back(
        static_cast<double>(bucket.traffic().bytes_to[peer] - sent_before[peer]) /
        options.steps);

  const auto all = control.gather(measured);
  const auto sent = control.gather(sent_to);
  const auto slowest = [&](double Measured::*field) {
    std::vector<double> steps(measured.size());
    for (const auto& rank : all)
      for (std::size_t i = 0; i < steps.size(); ++i)
        steps[i] = std::max(steps[i], rank[i].*field);
    return median(steps);
  };
  row.seconds = slowest(&Measured::seconds);
  row.seconds_p99 = late_step(all);
  row.select_seconds = slowest(&Measured::select_seconds);
  row.wait_seconds = slowest(&Measured::wait_seconds);
  row.messages_max = slowest(&Measured::messages);
  row.sum_nnz = slowest(&Measured::count);
  std::vector<double> received(sent.size());
  for (const auto& rank : sent) {
    const double total = std::accumulate(rank.begin(), rank.end(), 0.0);
    row.sent_bytes_max = std::max(row.sent_bytes_max, total);
    row.sent_bytes_mean += total / static_cast<double>(sent.size());
    for (std::size_t peer = 0; peer < rank.size(); ++peer) received[peer] += rank[peer];
  }
  row.received_bytes_max = *std::max_element(received.begin(), received.end());
}

}  // namespace

std::vector<Row> run_rank(Transport& link, const Options& options,
                          const std::vector<std::string>& names) {
  const auto gradients =
      options.gradients.of_rank(link.rank(), options.problem.n, options.correlation);
  int channel = 0;
  const auto measure = [&](const std::string& name) {
    const Spec spec = parse_collective(name);
    Row row;
    row.collective = spec.name;
    row.parameters = spec.params.str();
    row.n = options.problem.n;
    check_law(link, options, name, channel, row);
    channel += 2;
    time_steps(link, options, name, channel++, gradients, row);
    return row;
  };
  std::vector<Row> rows = {measure("dense"), measure("dense:via=native")};
  rows.erase(rows.begin() + (rows[0].seconds <= rows[1].seconds ? 1 : 0));
  const double dense_seconds = rows[0].seconds;
  rows[0].vs_dense = 1;
  for (const std::string& name : names) {
    rows.push_back(measure(name));
    rows.back().vs_dense = dense_seconds / rows.back().seconds;
  }
  return rows;
}

void check(const Options& options, const std::vector<std::string>& names) {
  options.problem.check();
  if (options.launch.workers && *options.launch.workers < 1)
    throw ConfigError(fmt::format("--workers {} leaves nobody to work; take 1 or more.",
                                  *options.launch.workers));
  if (!(options.correlation >= 0 && options.correlation <= 1))
    throw ConfigError(
        fmt::format("--correlation {} is not in 0..1.", options.correlation));
  const auto alone = make_inproc(1);
  for (const std::string& name : names) {
    const engine::Recipe parts = recipe(options, name);
    const auto compressor = make_compressor(parts.compressor, Layout::flat(1));
    make_collective(parts.collective, *alone[0], *compressor, Layout::flat(1));
  }
}

}  // namespace topknot::cli
