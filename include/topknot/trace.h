// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace topknot {

/// What the communication thread does in an exchange. The rest of it adds up, writes sums and
/// settles.
enum class Phase : std::uint8_t { select, encode, wait, decode };

/// One stretch of a phase.
struct PhaseSpan {
  Phase phase = Phase::select;
  std::int32_t peer = -1;  ///< of a wait: the rank whose message it was for
  double start = 0;        ///< by the channel's clock
  double seconds = 0;
};

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
  double encode_seconds = 0;  ///< making messages
  double wait_seconds = 0;    ///< inside Transport::wait
  double decode_seconds = 0;  ///< reading messages
  double seconds = 0;         ///< the whole step
  double ready = 0;  ///< when its last gradient came, by the channel's clock; or 0
  double start = 0;  ///< when its step began, by the same clock
  // Where EngineOptions::details asks for them:
  double threshold = 0;          ///< the smallest magnitude that was selected, or 0
  std::vector<PhaseSpan> spans;  ///< in their order
};

}  // namespace topknot
