// SPDX-License-Identifier: Apache-2.0
//
// What a run shows and leaves, told by rank 0: a bar or plain lines on the error output, the
// files of its folder, and at the end a summary.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/bench.h"
#include "cli/run_folder.h"
#include "cli/tfevents.h"
#include "train/train.h"

namespace topknot::cli {

/// A job's keys and values, numbers as numbers.
Json to_json(const train::Job& job);

/// What --json ends with.
Json to_json(const train::Job& job, int workers, const train::Outcome& outcome);

/// "41.2 kB"
std::string bytes_text(double bytes);
/// "1 min 42 s"
std::string duration_text(double seconds);

struct RunLogOptions {
  int workers = 1;
  std::string launch = "threads";  ///< or mpi
  std::string torch = {};          ///< its version, where that is known
  RunFolder* folder = nullptr;     ///< none: nothing is left
  bool tensorboard = false;
  std::FILE* to = stderr;  ///< progress that is not a bar
};

class RunLog final : public train::Observer {
 public:
  RunLog(const train::Job& job, const RunLogOptions& options);

  void on_start(const train::Start& start) override;
  void on_step(const train::StepRecord& record) override;
  void on_epoch(const train::EpochRecord& record) override;
  void on_checkpoint(std::uint64_t step, double seconds) override;
  void on_checkpoint_failed(const std::string& sentence) override;

  /// For a person, several lines. Training has ended.
  std::string summary(const train::Outcome& outcome) const;
  /// Training has ended: leaves result.json and takes the bar away.
  void finish(const train::Outcome& outcome);

 private:
  /// Sums over the steps since progress was last shown.
  struct Window {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
    double loss = 0;
    double sent_bytes = 0;
    double seconds = 0;
    double select = 0;
    double wait = 0;
    double busy = 0;
    void add(const train::StepRecord& record);
    std::string text(const train::Metric& metric) const;
  };
  void plain_line(const std::string& line);

  const train::Job job_;
  const RunLogOptions options_;
  train::Start start_;
  train::Metric metric_;
  Window window_;
  Window all_;
  std::uint64_t skipped_ = 0;  // steps that were not applied
  std::uint64_t saved_ = 0;
  double save_seconds_ = 0;
  std::chrono::steady_clock::time_point shown_;
  std::unique_ptr<Progress> bar_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace topknot::cli
