// SPDX-License-Identifier: Apache-2.0
//
// flight recorder: forwards everything to another channel, and keeps the last operations of the
// rank for the day on which it fails. A message's header says which step and phase it is of.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "topknot/transport.h"

namespace topknot {

/// The last operations of one rank, over all its channels. Any of its threads adds, without a
/// lock and without memory; any thread reads, and so may a signal handler.
class FlightRecord {
 public:
  static constexpr std::size_t kLength = 64;

  enum class What : std::uint8_t { send, wait_to_send, wait, received };

  struct Operation {
    std::uint64_t microseconds = 0;  ///< now(), when it began
    std::uint64_t bytes = 0;         ///< of a message that was sent or received
    std::uint64_t fingerprint = 0;   ///< of the last message that the rank made itself
    std::uint32_t step = 0;     ///< of a collective's message, counted from 1; 0: another
    std::uint32_t channel = 0;  ///< all ranks make them in the same order: 0, 1, 2 ...
    std::int32_t peer = 0;
    What what = What::send;
    std::uint8_t phase = 0;  ///< of the step
    std::uint8_t unused[2] = {};
  };
  using Operations = std::array<Operation, kLength>;

  /// Of a clock that is one for all processes on a host.
  static std::uint64_t now() noexcept;

  void add(const Operation& operation) noexcept;
  /// Writes them, the oldest first, and returns how many. Leaves out what is written meanwhile.
  std::size_t read(Operations& into) const noexcept;

  /// The number of a channel that is made now.
  std::uint32_t next_channel() noexcept { return channels_++; }

 private:
  static constexpr std::size_t kWords = sizeof(Operation) / sizeof(std::uint64_t);
  struct Slot {
    std::atomic<std::uint64_t> number = 0;  // of the operation, from 1; 0: being written
    std::array<std::atomic<std::uint64_t>, kWords> words = {};
  };

  std::atomic<std::uint64_t> last_ = 0;
  std::atomic<std::uint32_t> channels_ = 0;
  std::array<Slot, kLength> slots_;
};

/// `link` and `record` must outlive what is returned.
std::unique_ptr<Transport> make_recorded(Transport& link, FlightRecord& record);

}  // namespace topknot
