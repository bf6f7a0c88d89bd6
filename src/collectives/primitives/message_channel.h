// SPDX-License-Identifier: Apache-2.0
//
// What stands between a collective and its channel: every message that goes out is coded
// and stamped, every message that comes in is checked against the stamp it should have,
// and what one rank knows of a gradient that is not finite reaches all the others on the
// way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/primitives/message.h"
#include "core/wire/wire.h"
#include "topknot/collective.h"
#include "topknot/compressor.h"
#include "topknot/params.h"
#include "topknot/transport.h"

namespace topknot::collective {

using core::Region;

/// A rank, or another small number that is never negative, as the place in a vector.
constexpr std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

class MessageChannel {
 public:
  /// Stands for every rank as the receiver of a message.
  static constexpr int kEveryone = 0xFFFF;
  /// In the phase of a message of plain words, which tells agreement from data.
  static constexpr std::uint8_t kWordsBit = 0x80;

  /// Reads the parameters coding= and values=. `owner` is the collective's name: ranks
  /// that run another one, or the same with other parameters, are told apart by it.
  MessageChannel(Transport& link, std::string_view owner, Params& params);

  int rank() const noexcept { return link_.rank(); }
  int size() const noexcept { return link_.size(); }
  /// The rank `distance` places to the right, in a circle; `distance` may be negative.
  int neighbour(int distance) const noexcept;
  core::Values values() const noexcept { return format_.values; }
  Transport& link() const noexcept { return link_; }

  // ---- a step and its phases

  /// Starts a step on a vector of `n`, of which `k` are wanted. Throws ConfigError for more
  /// than kMostCoordinates.
  void begin(std::uint64_t n, std::uint64_t k);
  /// Starts a phase; its name is for people, its number goes with every message.
  void enter(std::string_view phase);

  // ---- finiteness

  /// compressor.select(), remembering if a gradient was not finite.
  void select(Compressor& compressor, std::span<float> residual, std::span<float> grad,
              std::size_t k, Sparse& out);
  /// compressor.select() of `region` alone, with positions in the whole vector; residual += grad
  /// everywhere else. Likewise.
  void select_inside(Compressor& compressor, Region region, std::span<float> residual,
                     std::span<float> grad, std::size_t k, Sparse& out);
  /// residual += grad, likewise.
  void fold(std::span<float> residual, std::span<float> grad);
  /// Tells everyone, by all messages from now on, that something is not finite.
  void report_nonfinite() noexcept { nonfinite_ = true; }
  bool finite() const noexcept { return !nonfinite_; }
  /// Ends a step that is not finite: `residual` becomes what it was before the step, bit for bit,
  /// out of what the fold left in `grad`. So nothing may have been written into `sum` yet
  /// where that is the memory of `grad`.
  Reduced undo(std::span<float> residual, std::span<const float> grad);

  // ---- messages: code, start, finish, read

  /// Replaces `message` with the `pairs` of `region`, for `to`. Where values are rounded
  /// on the way, error[i] becomes what the reader will miss of pairs.value[i].
  void code(SparseView pairs, Region region, int to, Message& message,
            std::vector<float>& error);
  void code_dense(std::span<const float> x, int to, Message& message,
                  std::vector<float>& error);

  /// The same for positions alone, and for plain 32-bit words.
  void code_positions(std::span<const std::uint32_t> index, Region region, int to,
                      Message& message);
  void code_words(std::span<const std::uint32_t> words, int to, Message& message);

  /// Starts sending; `message` must stay as it is until flush().
  void start_send(int to, const Message& message);
  /// Starts receiving; `message` must stay put until finish_receive(from). Receives from
  /// one rank finish in the order they were started.
  void start_receive(int from, Message& message, std::size_t limit);
  void finish_receive(int from);
  /// Waits until everything that was sent has been taken, or all but the `latest` sends.
  void flush() { flush_but(0); }
  void flush_but(std::size_t latest);

  /// Replaces `pairs` with what `message`, made by rank `from` for `to`, holds.
  void read(const Message& message, int from, int to, Region region, std::uint64_t most,
            Sparse& pairs);
  void read_dense(const Message& message, int from, int to, std::span<float> x, bool add);
  void read_positions(const Message& message, int from, int to, Region region,
                      std::uint64_t most, std::vector<std::uint32_t>& index);
  void read_words(const Message& message, int from, int to,
                  std::span<std::uint32_t> words);

  /// Takes from a message that is read later, or only passed on, what it says of its
  /// sender's health.
  void note_nonfinite(const Message& message);

  /// Ends the job, on all ranks: rank `from` sent `message`, which cannot be read for the
  /// reason `why`. Where its header says that the ranks disagree, that is the cause.
  [[noreturn]] void refuse(const Message& message, int from, const std::string& why);

  /// The longest message that can hold `most` pairs of a region of `size`, in our format.
  std::size_t limit(std::uint64_t most, std::uint64_t size) const;
  /// The length of what code_dense() makes of `size` values.
  std::size_t dense_length(std::uint64_t size) const;
  /// The length of a message of `count` words.
  static std::size_t words_limit(std::size_t count) {
    return core::kHeaderBytes + count * sizeof(std::uint32_t);
  }

 private:
  core::Stamp stamp(int from, int to, std::uint64_t region_size) const;
  core::Stamp words_stamp(int from, int to, std::uint64_t count) const;
  [[noreturn]] void refuse(const Message& message, int from, const core::Fault& fault,
                           std::uint64_t region_size);
  [[noreturn]] void disagree(int with, const std::string& differences);
  void compare(const Message& message, int from);
  template <typename E>
  [[noreturn]] void end(const E& error);
  void wait(Pending message);
  std::string where() const;

  Transport& link_;
  const std::string owner_;
  std::string configuration_;  // the collective's name and parameters
  core::Format format_;
  std::uint16_t config_ = 0;  // hash of configuration_

  std::uint32_t step_ = 0;
  std::uint8_t phase_ = 0;
  std::string phase_name_;
  std::uint64_t n_ = 0;
  std::uint64_t k_ = 0;
  bool nonfinite_ = false;
  bool folded_ = false;  // this rank's residual has the step's gradient in it

  Sparse positions_;  // where messages of positions alone are read to
  struct Receive {
    Pending pending;
    Message message;
  };
  std::deque<Pending> sends_;
  std::vector<std::deque<Receive>> receives_;  // by rank of the sender
};

}  // namespace topknot::collective
