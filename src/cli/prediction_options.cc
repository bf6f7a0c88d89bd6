// SPDX-License-Identifier: Apache-2.0
#include "cli/prediction_options.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/calibration_file.h"
#include "cli/quantity.h"
#include "cli/recorded_workload.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

constexpr int kMostRanks = 65'535;  // a message numbers them in 16 bits

}  // namespace

void PredictionOptions::add_to(CLI::App& command, JobWorkload workload_of) {
  workload_of_ = std::move(workload_of);
  command.add_option("--workers", workers_, "Numbers of ranks, as 4,16,64")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--bandwidth", bandwidths_,
                  "Line rates of a rank's port, as 1Gbps,10Gbps (default 1Gbps)")
      ->delimiter(',');
  std::string presets;
  for (const NetworkPreset& preset : network_presets())
    presets += (presets.empty() ? "" : ", ") + std::string(preset.name);
  command.add_option("--network", networks_, "Networks by name: " + presets)
      ->delimiter(',');
  command.add_option("--latency", latency_,
                     "Of a message, as 20us (default: the network's, or 50us)");
  command.add_option(
      "--overhead", overhead_,
      "Of the sender for each message, as 5us (default: the network's, or 5us)");
  command.add_option("--burst", burst_,
                     "Bytes that pass at once through a port that has rested, as 128K");
  command
      .add_option("--ranks-per-node", ranks_per_node_,
                  "Ranks that share a port, with fast links among them")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command
      .add_option("--cores", cores_,
                  "Cores that all ranks share, as on one machine; 0: each has its own "
                  "(default: 0, or as calibrated with the network)")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--personality", personality_,
          "The library that carries messages: mpi; nccl, which pads them and launches "
          "each; nvshmem, one-sided (docs/simulator.md has what is assumed)")
      ->capture_default_str()
      ->check(CLI::IsMember({"mpi", "nccl", "nvshmem"}));
  command.add_option("--params", params_, "Parameters of the model, as 14.7M");
  command.add_option("--compute", compute_,
                     "Of forward and backward, as 0.1s (default 0: the exchange alone)");
  command.add_option(
      "--run", run_,
      "A folder of `topknot train --out`: its parameters, buckets and compute; "
      "with its trace.json the times at which buckets were ready");
  command
      .add_option(
          "--job", job_,
          "A job of `topknot train`: the parameters and buckets of its model, and "
          "its compute, timed here on its data")
      ->excludes("--run");
  command.add_option("--density", densities_, "Shares of the coordinates, as 0.01,0.001")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option(
          "--scheme", schemes_,
          fmt::format("Schemes of `topknot list`, {} (knot as train runs it unless told "
                      "otherwise), or all",
                      sim::kRounds))
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--budget", budget_,
                  fmt::format("Of {}: bytes, as a share of dense's", sim::kRounds))
      ->capture_default_str();
  command.add_option("--bucket-mb", bucket_mb_, "Size of a bucket; 0: one for all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option(
          "--method", method_,
          "simulated runs the collectives on a virtual clock, closed-form takes the cost "
          "at the head of each algorithm's file; auto simulates up to 64 workers")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "simulated", "closed-form"}));
  command.add_option(
      "--calibration", calibration_,
      "A file of `topknot advise --measure --save`: rates of this machine, and "
      "its network where no other is asked for");
  command
      .add_option(
          "--coordinates", coordinates_,
          "Simulated coordinates of all ranks together; longer vectors are scaled")
      ->capture_default_str();
  command.add_option("--seed", seed_, "Of the order of ranks that are equal in time")
      ->capture_default_str();
  command.add_flag("--json", json_, "Print JSON");
}

std::vector<std::string> PredictionOptions::scheme_names() const {
  std::vector<std::string> all;
  for (const Scheme& scheme : schemes()) all.emplace_back(scheme.name);
  all.emplace_back(sim::kRounds);
  return expand(schemes_, all);
}

std::vector<int> PredictionOptions::ranks() const {
  for (const int ranks : workers_)
    if (ranks < 1 || ranks > kMostRanks)
      throw ConfigError(
          fmt::format("--workers {} cannot be; take 1 to {}.", ranks, kMostRanks));
  return workers_;
}

// The densities that a scheme knows: one alone for those that are dense or have a budget.
std::vector<sim::Candidate> PredictionOptions::candidates() const {
  for (const double density : densities_)
    if (!(density > 0 && density <= 1))
      throw ConfigError(fmt::format("--density {} is not in 0..1.", density));
  std::vector<sim::Candidate> made;
  for (const std::string& scheme : scheme_names()) {
    if (scheme == sim::kRounds) {
      made.push_back(sim::Candidate::rounds(budget_));
      continue;
    }
    for (const double density : densities_) {
      made.push_back(sim::Candidate::of(scheme, density));
      if (made.back().is_dense()) break;
    }
  }
  return made;
}

std::vector<sim::Line> PredictionOptions::lines(
    const sim::Calibration& calibration) const {
  if (!bandwidths_.empty() && !networks_.empty())
    throw ConfigError(
        "--bandwidth and --network both name the network; take one of them.");
  std::vector<sim::Line> made;
  for (const std::string& name : networks_) {
    const NetworkPreset& preset = find_network(name);
    made.push_back({preset.gbps, preset.network});
  }
  const Network fallback = find_network("1gbe").network;
  const bool measured = calibration.link.bandwidth > 0 && bandwidths_.empty();
  if (made.empty() && measured) {
    Network network = fallback;
    network.between = calibration.link;
    made.push_back({.gbps = calibration.link.bandwidth * 8e-9 / kPayloadShare,
                    .network = network,
                    .cores = calibration.cores});
  }
  for (const std::string& text : made.empty() && bandwidths_.empty()
                                     ? std::vector<std::string>{"1Gbps"}
                                     : bandwidths_) {
    Network network = fallback;
    const double gbps = parse_gbps(text);
    network.between =
        line_speed(gbps, fallback.between.latency, fallback.between.overhead);
    made.push_back({gbps, network});
  }
  for (sim::Line& line : made) {
    LinkSpeed& between = line.network.between;
    if (!latency_.empty()) between.latency = parse_seconds(latency_);
    if (!overhead_.empty()) between.overhead = parse_seconds(overhead_);
    if (!burst_.empty())
      between.burst = static_cast<double>(parse_count("--burst", burst_, 1));
    line.network.ranks_per_node = ranks_per_node_;
    if (cores_) line.cores.count = *cores_;
    line.personality = sim::Personality::find(personality_);
  }
  return made;
}

sim::Workload PredictionOptions::workload() const {
  sim::Workload workload;
  workload.bucket_bytes = bucket_mb_ * (1 << 20);
  if (!run_.empty()) workload = recorded_workload(run_);
  if (!job_.empty()) {
    if (!of_job_) of_job_ = workload_of_(job_, /*timed=*/compute_.empty());
    workload = *of_job_;
  }
  if (!params_.empty()) {
    workload.params = static_cast<double>(parse_count("--params", params_, 1));
    workload.buckets.clear();
  }
  if (!compute_.empty()) {
    const double compute = parse_seconds(compute_);
    double done = 0;
    for (sim::ReadyBucket& bucket : workload.buckets) {
      done += bucket.coordinates;
      bucket.ready = workload.compute > 0
                         ? bucket.ready * compute / workload.compute
                         : sim::ready_at(compute, done / workload.params);
    }
    workload.compute = compute;
  }
  if (workload.params == 0)
    throw ConfigError(
        "How large is the model? Give --params 14.7M, --job with a job of `topknot "
        "train`, "
        "or --run with a folder of a run.");
  return workload;
}

Sweep PredictionOptions::read(const std::optional<sim::Calibration>& measured) const {
  Sweep sweep;
  sweep.calibration = measured               ? *measured
                      : calibration_.empty() ? sim::default_calibration()
                                             : read_calibration(calibration_);
  sweep.ranks = ranks();
  sweep.lines = lines(sweep.calibration);
  sweep.candidates = candidates();
  sweep.workload = workload();
  sweep.settings.most_coordinates =
      static_cast<double>(parse_count("--coordinates", coordinates_, 1));
  sweep.settings.seed = seed_;
  sweep.method = method_ == "auto"        ? sim::method_for(sweep.ranks)
                 : method_ == "simulated" ? sim::Method::simulated
                                          : sim::Method::closed_form;
  if (method_ == "auto" && ranks_per_node_ > 1) sweep.method = sim::Method::simulated;
  return sweep;
}

Json to_json(const sim::Prediction& row) {
  return {{"scheme", row.scheme},
          {"ranks", row.ranks},
          {"bandwidth_gbps", row.gbps},
          {"density", row.density},
          {"step_seconds", row.step_seconds},
          {"exchange_seconds", row.exchange_seconds},
          {"bytes_per_rank", row.bytes},
          {"messages_per_rank", row.messages},
          {"speedup_vs_dense", row.speedup_vs_dense},
          {"speedup_vs_dense_bf16", row.speedup_vs_dense_bf16},
          {"method", sim::name(row.method)},
          {"exposed_seconds", row.exposed_seconds},
          {"efficiency", row.efficiency}};
}

std::string table(const std::vector<sim::Prediction>& rows) {
  std::string text = fmt::format(
      "{:>7}  {:>8}  {:<16}  {:>8}  {:>10}  {:>10}  {:>10}  {:>9}  {:>8}  {:>8}  {:>8}  "
      "{:>6}\n",
      "workers", "Gb/s", "scheme", "density", "step ms", "exchange", "exposed", "MB/rank",
      "messages", "vs dense", "vs bf16", "effic.");
  for (const sim::Prediction& row : rows)
    text += fmt::format(
        "{:>7}  {:>8.4g}  {:<16}  {:>8.4g}  {:>10.2f}  {:>10.2f}  {:>10.2f}  {:>9.2f}  "
        "{:>8.0f}  "
        "{:>7.2f}x  {:>7.2f}x  {:>5.0f}%\n",
        row.ranks, row.gbps, row.scheme, row.density, 1e3 * row.step_seconds,
        1e3 * row.exchange_seconds, 1e3 * row.exposed_seconds, row.bytes / 1e6,
        row.messages, row.speedup_vs_dense, row.speedup_vs_dense_bf16,
        100 * row.efficiency);
  return text;
}

}  // namespace topknot::cli
