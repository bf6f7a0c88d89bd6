// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace topknot {

/// What one step of one bucket did, as seen by one rank.
struct StepTrace {
  std::uint64_t step = 0;
  std::uint64_t k_wanted = 0;
  std::uint64_t k_selected = 0;  ///< coordinates that this rank's compressor chose
  std::uint64_t count = 0;       ///< coordinates of the agreed sum
  bool finite = true;
  std::uint64_t sent_bytes = 0;
  std::uint64_t sent_messages = 0;
  double select_seconds = 0;  ///< inside the compressor
  double wait_seconds = 0;    ///< inside Transport::wait
  double seconds = 0;         ///< the whole step
  double ready = 0;  ///< when its last gradient came, by the channel's clock; or 0
  double start = 0;  ///< when its step began, by the same clock
};

}  // namespace topknot
