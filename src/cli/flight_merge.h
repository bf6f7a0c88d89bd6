// SPDX-License-Identifier: Apache-2.0
//
// The dumps of all ranks, and what they say together: who is where, who waits for whom, and where
// the ranks first did different things.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace topknot::cli {

struct FlightOperation {
  std::string what;  ///< "send", "wait to send", "wait" or "received"
  int peer = 0;
  std::uint32_t channel = 0;
  std::uint32_t step = 0;  ///< 0: of no collective
  std::uint32_t phase = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes = 0;
  std::uint64_t microseconds = 0;
};

struct FlightDump {
  int rank = 0;
  int ranks = 0;
  std::uint64_t microseconds = 0;  ///< when it was written
  std::string error;               ///< why; empty where a signal asked
  int blames = -1;                 ///< the rank that the error names; -1: none
  std::vector<FlightOperation> operations;

  /// The rank's last operation, if that is a wait: for whom, and in which step. Of a rank that has
  /// not failed, a wait of at least a second: shorter ones are its daily work.
  const FlightOperation* waits() const;
};

struct Flight {
  int ranks = 0;
  std::map<int, FlightDump> dumps;  ///< by rank
  std::vector<std::string>
      notes;  ///< a sentence for each file that is torn or of another job
};

/// Reads the dumps in `folder`. Throws DataError where there is none that can be read.
Flight read_flight(const std::filesystem::path& folder);

/// One sentence: the first place where the ranks differ, or the rank that the others wait for.
std::string first_divergence(const Flight& flight);

}  // namespace topknot::cli
