// SPDX-License-Identifier: Apache-2.0
//
// The flags of `train` that record gradients.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "train/train.h"

namespace topknot::cli {

/// As they were given.
struct RecordFlags {
  std::string file;
  std::string steps;  // "0,10,100-103"; empty: the trainer's choice
  std::string ranks;  // "0,2"; empty: all

  void add_to(CLI::App& command);
  /// Throws ConfigError for a list that cannot be read, or one without the file.
  train::RecordOptions options() const;
};

/// The result of the recording, in a sentence; empty when nothing was to be recorded.
std::string about_record(const RecordFlags& flags, const train::Outcome& outcome);

}  // namespace topknot::cli
