// SPDX-License-Identifier: Apache-2.0
//
// Where a benchmark's gradients come from: drawn, or recorded by `train`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "store/gradients.h"

namespace topknot::cli {

class Gradients {
 public:
  /// Adds --gradients, after the options that cannot be given with it.
  void add_to(CLI::App& command);

  /// Reads the file, if one was given, and takes the length of `problem` from it. Throws
  /// ConfigError when one of those options was given too, DataError for a file that is no
  /// recording.
  void open(Problem& problem);

  /// Of the file's parameters; `drawn` where there is none.
  Layout layout_or(const Layout& drawn) const;

  /// What `rank` has, step by step, to be used in turn. Of a file with R ranks it is what
  /// the rank-th, modulo R, has recorded; four of length n are drawn otherwise.
  std::vector<std::vector<float>> of_rank(int rank, std::uint64_t n,
                                          double correlation) const;

  bool recorded() const noexcept { return file_ != nullptr; }
  /// File, model, steps and ranks; null when they are drawn.
  Json about() const;
  /// The same in a few words.
  std::string summary() const;

 private:
  const CLI::App* command_ = nullptr;
  std::string path_;
  std::shared_ptr<const store::RecordedGradients> file_;
};

}  // namespace topknot::cli
