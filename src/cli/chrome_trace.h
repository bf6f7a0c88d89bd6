// SPDX-License-Identifier: Apache-2.0
//
// trace.json: when every rank was in which phase of a step, on which bucket, and for whom it
// waited, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "topknot/transport.h"
#include "train/train.h"

namespace topknot::cli {

/// How far a rank's clock is ahead of rank 0's, at one time of its own.
struct ClockReading {
  double at = 0;
  double ahead = 0;
};

/// All ranks together, between steps. The best of a few round trips with rank 0; where the
/// difference is within that trip's own doubt, as between ranks of one host, it is 0.
ClockReading read_clock(Transport& link);

/// Something that took time on one rank. The kinds from `exchange` on are the communication
/// thread's; those behind it are within an exchange.
struct TraceSpan {
  enum Kind : std::uint32_t {
    data,
    forward,
    backward,
    exposed,
    optimizer,
    agree,
    evaluation,
    exchange,
    select,
    encode,
    wait,
    decode,
  };
  Kind kind = data;
  std::uint32_t bucket =
      0;  ///< of an exchange and what is within it; of a wait: for whom
  std::uint64_t step = 0;
  double start = 0;
  double seconds = 0;
  std::uint64_t sent_bytes = 0;  ///< of an exchange
};

/// One rank's spans. The first `limit` are kept, so that a long run does not fill the memory.
class TraceSpans {
 public:
  explicit TraceSpans(std::size_t limit = 200'000) : limit_(limit) {}

  void add(const train::StepRecord& record);
  void add(const train::EpochRecord& record);

  /// All ranks together: the spans of each rank, by rank 0's clock, on rank 0; nothing on
  /// others. `first` and `last` are of before and after the steps; a clock that drifted
  /// in between is straightened.
  std::vector<std::vector<TraceSpan>> gather(Transport& link, ClockReading first,
                                             ClockReading last) const;

 private:
  void keep(const TraceSpan& span);

  std::size_t limit_;
  std::vector<TraceSpan> spans_;
};

/// Writes the file, with time counted from the first span. Throws StorageError.
void write_chrome_trace(const std::filesystem::path& file,
                        const std::vector<std::vector<TraceSpan>>& ranks);

}  // namespace topknot::cli
