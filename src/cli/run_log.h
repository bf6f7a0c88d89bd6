// SPDX-License-Identifier: Apache-2.0
//
// What a run shows and leaves, told by rank 0: a bar or plain lines on the error output, the
// files of its folder, and at the end a summary.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "cli/run_json.h"
#include "cli/silence.h"
#include "cli/tfevents.h"
#include "cli/traffic_matrix.h"
#include "train/train.h"
#include "transports/watched.h"

namespace topknot::cli {

struct RunLogOptions {
  int workers = 1;
  std::string launch = "threads";  ///< or mpi
  std::string torch = {};          ///< its version, where that is known
  RunFolder* folder = nullptr;     ///< none: nothing is left
  bool tensorboard = false;
  bool quiet = false;                           ///< shows warnings and the summary alone
  std::shared_ptr<const Waiting> waiting = {};  ///< whom this rank waits for
  std::FILE* to = stderr;                       ///< progress that is not a bar
};

class RunLog final : public train::Observer {
 public:
  RunLog(const train::Job& job, const RunLogOptions& options);

  void on_activity(const train::Activity& activity) override;
  void on_start(const train::Start& start) override;
  void on_step(const train::StepRecord& record) override;
  void on_settling(std::uint64_t steps, std::uint64_t sent_bytes) override;
  void on_epoch(const train::EpochRecord& record) override;
  void on_checkpoint(std::uint64_t step, double seconds) override;
  void on_checkpoint_failed(const std::string& sentence) override;

  /// Of all ranks, before finish() and summary().
  void add_traffic(const TrafficMatrix& traffic) { traffic_ = traffic; }
  /// Training has ended: leaves result.json and takes the bar away.
  void finish(const train::Outcome& outcome);
  /// What result.json and --json have; steps before a resume count in all of it.
  Json result(const train::Outcome& outcome) const;
  /// For a person, several lines.
  std::string summary(const train::Outcome& outcome) const;

 private:
  void begin_folder(const train::Start& start);
  void plain_line(const std::string& line);
  void warn(const std::string& sentence);
  /// Says what the run is at, when it has been silent. Returns whether it did.
  bool say_activity();
  /// What the bar or a plain line says of the steps since the last: what matters most first.
  std::vector<std::string> notes() const;

  const train::Job job_;
  const RunLogOptions options_;
  std::mutex mutex_;  // of all below, for the thread of silence_
  train::Start start_;
  train::Activity activity_;
  train::Metric metric_;
  TrafficMatrix traffic_;
  StepTotals window_;   // since progress was last shown
  StepTotals own_;      // of this run
  StepTotals earlier_;  // before a resume
  std::uint64_t saved_ = 0;
  double save_seconds_ = 0;
  std::chrono::steady_clock::time_point shown_;
  std::chrono::steady_clock::time_point since_;  // of the activity or step under way
  std::unique_ptr<Progress> bar_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<Silence> silence_;
};

}  // namespace topknot::cli
