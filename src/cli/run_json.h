// SPDX-License-Identifier: Apache-2.0
//
// A run as JSON: what stands in run.json, result.json, steps.jsonl and epochs.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "train/train.h"

namespace topknot::cli {

using Json = nlohmann::ordered_json;

/// A job's keys and values, numbers as numbers.
Json to_json(const train::Job& job);
/// The keys of `json`, as to_json() has made it, set in `job`. Throws ConfigError.
void set_from_json(train::Job& job, const Json& json);

Json to_json(const train::Metric& metric);
Json step_line(const train::StepRecord& record);
Json epoch_line(const train::EpochRecord& record);
Json buckets_json(const train::Start& start);
/// What scheme=auto has measured and decided, by bucket; empty where it has not measured.
Json measured_json(const train::Start& start);

/// The parts that a job's exchange is made of, as it is run.
Json exchange_json(const train::Job& as_run);
/// "residual + topk + knot:values=i2 at density 0.25 every 3 steps"
std::string exchange_text(const train::Job& as_run);
/// The job's scheme; where it has parts of its own, those that run, as "residual + topk + gtopk".
std::string scheme_text(const train::Job& job, const train::Job& as_run);
/// Both, for a person: "knot: residual + topk + knot at density 0.01".
std::string scheme_and_exchange(const train::Job& job, const train::Job& as_run);

/// A file's content; discarded, so no object, where there is none or it is not JSON.
Json read_json(const std::filesystem::path& file);

/// Sums over lines of steps.jsonl.
struct StepTotals {
  std::uint64_t steps = 0;
  std::uint64_t applied = 0;    ///< of them
  std::uint64_t exchanges = 0;  ///< steps that have sent anything
  std::uint64_t samples = 0;
  double loss = 0;
  double sent_bytes = 0;
  double count = 0;  ///< coordinates of all sums
  double seconds = 0;
  double select = 0;
  double wait = 0;
  double busy = 0;
  double exposed = 0;

  void add(const Json& line);
  /// Share of `n` coordinates that an exchange has agreed on.
  double density(std::uint64_t n) const;
};

/// Of a whole file; one that is not there has none.
StepTotals totals_of(const std::filesystem::path& steps);

}  // namespace topknot::cli
