// SPDX-License-Identifier: Apache-2.0
//
// A training job: the keys of jobs/*.toml. The table in job.cc has one entry for each key with
// its range and meaning; files, --set and the documentation all go by it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/engine.h"

namespace topknot::train {

/// The options of the exchange are the engine's own; keys() names those that a job sets. Keys that
/// are 0, empty or "auto" here are decided by prepared() (job/engine_options.h).
struct Job : EngineOptions {
  Job() { density = 0; }

  std::string name;

  // Model and data.
  std::string model = "cnn";
  std::string data = "fashion-mnist";
  std::string folder;  // of the data; empty: where `topknot data` or the system puts it
  std::int64_t pad = 0;
  bool flip = false;
  double rotate = 0;

  // Length, workers and their limits.
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  // 0: all of the epochs
  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  std::int64_t workers = 4;
  std::int64_t threads = 1;
  std::int64_t seed = 1;
  double timeout = 60;
  double checkpoint_timeout = 600;

  // The optimizer.
  std::string optimizer = "sgd:momentum=0.9";
  double lr = 0.1;
  std::string lr_schedule = "constant";
  double warmup = 0;
  double warmup_from = 0;
  double weight_decay = 0;
  bool decay_vectors = true;

  // The exchange, beside the engine's options.
  std::string exchange = "auto";
  double budget = 0;
  std::int64_t local_steps = 0;
  std::string settle = "never";
  double bucket_mb = 25;
  std::string outer;
  double outer_lr = 0.7;

  // Evaluation, checkpoints and checks.
  bool evaluate = true;
  std::int64_t evaluate_every = 1;
  std::int64_t evaluate_samples = 0;
  std::int64_t checkpoint_every = 0;
  std::int64_t check_every = 100;
  std::string nonfinite = "abort";
  double skip_limit = 0.1;

  /// No key: what scheme=auto has decided, as AutoChoice::text(); empty: the scheme was named.
  std::string auto_choice;
};

/// One key, as the command and the documentation show it.
struct Key {
  std::string_view name;
  std::string_view range;
  std::string_view meaning;
  /// Why ranks may have different values of it; empty: they may not.
  std::string_view may_differ;
};

/// All keys, in the order of the documentation.
std::vector<Key> keys();

/// Sets one key from text, as `--set` gives it; lists are separated by spaces. Throws
/// ConfigError, with the nearest name or the range, when there is no such key or value. A folder
/// given for `data`, with a slash in it, is that for `folder`: --data takes both, too.
void set(Job& job, std::string_view key, std::string_view value);

/// The key's value as text that set() would take.
std::string get(const Job& job, std::string_view key);

/// Throws ConfigError where a name does not exist or has parameters that it does not take (the
/// model, the optimizer, the schedules, the scheme or a part of it), and where parts of the
/// exchange cannot be together. The parameters of model and collective are
/// checked when these are made.
void check(const Job& job);

}  // namespace topknot::train
