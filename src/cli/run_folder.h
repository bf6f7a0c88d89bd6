// SPDX-License-Identifier: Apache-2.0
//
// What a run leaves in its folder; docs/train.md has the files and their fields.
//
//     run.json         configuration, machine, versions; there once training has begun
//     steps.jsonl      a line for each step, flushed
//     epochs.jsonl     a line for each epoch, flushed
//     settlings.jsonl  a line for each exchange that settled the residuals, if there were any
//     result.json      the results of the run; there once it has ended
//     traffic.json     who has sent to whom and waited for whom; as result.json, or when stopped
//     checkpoints/     the trainer's
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/run_json.h"

namespace topknot::cli {

/// Lines of JSON, appended to a file. Throws StorageError when the disk refuses.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path);
  void add(const Json& line);

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// Cuts a file of JSON lines before the first that is torn or whose "step" is not below
/// `step`. A file that is not there stays so.
void cut_back(const std::filesystem::path& file, std::uint64_t step);

enum class FolderUse { fresh, resume, overwrite };

/// One run's folder. Nothing of an earlier run is touched for good before begin(): one that
/// fails before its first step leaves everything as it was.
class RunFolder {
 public:
  /// Throws ConfigError when another run is in the folder and `use` is fresh. To overwrite,
  /// its checkpoints are put aside.
  RunFolder(std::filesystem::path path, FolderUse use);
  /// Where begin() was never called, what was put aside is put back, and a folder that was not
  /// there before is not there any more.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Training begins, with `first_step`: writes run.json and clears or cuts the rest. Of
  /// a run that is resumed it keeps "started", lists this one in "resumed", and returns the sums
  /// of the steps before. Throws ConfigError where that had other data.
  StepTotals begin(Json run, std::uint64_t first_step);
  void add_step(const Json& line) { steps_->add(line); }
  void add_epoch(const Json& line) { epochs_->add(line); }
  void add_settling(const Json& line);
  /// Replaces a file of the folder, in one instant.
  void write(const std::string& name, const Json& content) const;

 private:
  std::filesystem::path path_;
  FolderUse use_;
  bool made_ = false;  // the folder, by this object
  bool begun_ = false;
  std::unique_ptr<JsonLines> steps_;
  std::unique_ptr<JsonLines> epochs_;
  std::unique_ptr<JsonLines> settlings_;
};

/// The folder of a run's checkpoints.
std::filesystem::path checkpoints_in(const std::filesystem::path& run);

}  // namespace topknot::cli
