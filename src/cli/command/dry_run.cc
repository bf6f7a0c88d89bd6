// SPDX-License-Identifier: Apache-2.0
//
// train --dry-run. Needs a trainer, as train does.
#ifdef TOPKNOT_HAVE_TORCH

#include "cli/command/dry_run.h"

#include <fmt/core.h>

#include "cli/colour.h"
#include "cli/data_folders.h"
#include "cli/expected_bytes.h"
#include "cli/numbers.h"
#include "cli/run_json.h"
#include "cli/run_warnings.h"
#include "job/engine_options.h"
#include "job/optimizer.h"
#include "topknot/transports.h"

namespace topknot::cli {
namespace {

constexpr int kMostMeasured = 64;  // ranks as threads

void line(const char* what, const std::string& said) {
  fmt::print("  {} {}\n", coloured(Colour::bold, fmt::format("{:<11}", what), stdout),
             said);
}

/// The keys whose values are not the defaults.
void print_keys(const train::Job& job) {
  const train::Job defaults;
  fmt::print("{}\n", coloured(Colour::bold, job.name, stdout));
  for (const train::Key& key : train::keys())
    if (const std::string value = train::get(job, key.name);
        value != train::get(defaults, key.name) && key.name != "name")
      fmt::print("  {:<18} {}\n", key.name, value);
}

std::string buckets_text(const train::Start& start) {
  std::string text;
  std::size_t listed = 0;
  for (const Layout& bucket : start.buckets) {
    if (++listed > 4) return text + ", ...";
    text += (text.empty() ? "" : ", ") + with_commas(bucket.size());
  }
  return text;
}

double bytes_a_step(const train::Start& start, int workers) {
  return workers > kMostMeasured ? 0
                                 : expected_bytes(start.job, start.parameters, workers);
}

Json to_json(const train::Job& job, const train::Start& start, double sent) {
  Json all{{"scheme", scheme_text(job, start.job)},
           {"exchange", exchange_json(start.job)},
           {"job", cli::to_json(job)},
           {"job_as_run", cli::to_json(start.job)},
           {"parameters", start.parameters},
           {"steps", start.steps},
           {"steps_per_epoch", start.steps_per_epoch},
           {"train_samples", start.train_samples},
           {"test_samples", start.test_samples},
           {"buckets", buckets_json(start)},
           {"dense_bytes_per_step", start.dense_bytes},
           {"worker_bytes", worker_bytes(start)}};
  all["expected_bytes_per_step"] = sent > 0 ? Json(sent) : Json();
  return all;
}

void print_plan(const train::Start& start, double sent, int workers) {
  line("exchange", exchange_text(start.job));
  for (const std::string& notice : start.notices) line("", notice);
  line("model",
       fmt::format("{}: {} parameters", start.job.model, with_commas(start.parameters)));
  line("data",
       fmt::format("{}: {} samples to train on, {} to test on", start.job.data,
                   with_commas(start.train_samples), with_commas(start.test_samples)));
  line("steps", fmt::format("{}, {} an epoch", with_commas(start.steps),
                            with_commas(start.steps_per_epoch)));
  line("buckets",
       fmt::format("{}: {} coordinates", start.buckets.size(), buckets_text(start)));
  const auto dense = static_cast<double>(start.dense_bytes);
  line("bytes", sent > 0 ? fmt::format("about {} a step by the busiest worker for random "
                                       "gradients; dense {}, {:.1f} times as much",
                                       bytes_text(sent), bytes_text(dense), dense / sent)
                         : fmt::format("dense {} a step", bytes_text(dense)));
  const auto each = static_cast<double>(worker_bytes(start));
  line("memory",
       fmt::format("at least {} a worker, {} for {}, without data and activations",
                   bytes_text(each), bytes_text(each * workers), workers));
  for (const std::string& warning : warnings_about(start)) line("warning", warning);
}

}  // namespace

std::uint64_t worker_bytes(const train::Start& start) {
  const auto optimizer = train::make_optimizer(Spec::parse(start.job.optimizer), {});
  const std::uint64_t slots = 2 + optimizer->slots().size();  // weights and gradients too
  return slots * start.parameters * sizeof(float) + start.engine_bytes;
}

train::Start plan_alone(const train::Job& job) {
  train::Observer nobody;
  const auto links = make_inproc(static_cast<int>(job.workers));
  return train::plan(*links[0], with_data_found(job), nobody);
}

void print_dry_run(const train::Job& job, bool json) {
  train::check(job);
  if (!json) print_keys(job);
  std::fflush(stdout);
  require_data(job);
  const train::Start start = plan_alone(job);
  const int workers = static_cast<int>(job.workers);
  const double sent = bytes_a_step(start, workers);
  if (json) return fmt::print("{}\n", to_json(job, start, sent).dump());
  print_plan(start, sent, workers);
}

}  // namespace topknot::cli

#endif
