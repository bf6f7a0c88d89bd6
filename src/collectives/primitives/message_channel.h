// SPDX-License-Identifier: Apache-2.0
//
// Between a collective and its transport. MessageChannel codes and stamps every message that
// goes out, and checks every message that comes in against the stamp it should have. Every
// message also carries whether its sender knows of a nonfinite value, so in the end all
// ranks know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/primitives/message.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/subgroup.h"
#include "core/wire/wire.h"
#include "topknot/params.h"
#include "topknot/sparse.h"
#include "topknot/transport.h"

namespace topknot::collective {

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
  int neighbour(int distance) const noexcept { return everyone_.member(distance); }
  /// All ranks.
  const Subgroup& everyone() const noexcept { return everyone_; }
  core::Values values() const noexcept { return format_.values; }
  core::Format format() const noexcept { return format_; }
  Transport& link() const noexcept { return link_; }

  // ---- a step and its phases

  /// Starts a step on a vector of `n`, of which `k` are wanted. Throws ConfigError for more
  /// than kMostCoordinates.
  void begin(std::uint64_t n, std::uint64_t k);
  /// Starts a phase; its name is for people, its number goes with every message.
  void enter(std::string_view phase);

  /// Counts the calls of begin().
  std::uint32_t step() const noexcept { return step_; }

  // ---- finiteness, which begin() assumes

  /// False once this rank, or the sender of a message that it has read, has reported a
  /// nonfinite value in this step.
  bool finite() const noexcept { return !nonfinite_; }
  /// Tells everyone, by all messages from now on, that something is nonfinite.
  void report_nonfinite() noexcept { nonfinite_ = true; }
  /// Reports when a value of `x` is nonfinite.
  void report_unless_finite(std::span<const float> x);
  /// Takes over what a message that is read later, or only passed on, says of its sender.
  void note_nonfinite(const Message& message);

  // ---- messages: code, start, finish, read

  /// Replaces `message` with the `pairs` of `region`, for `to`. Where values are rounded
  /// on the way, error[i] becomes what the reader will miss of pairs.value[i].
  void code(SparseView pairs, Region region, int to, Message& message,
            std::vector<float>& error);
  /// `offset` is where `x` begins in the vector. It tells messages of one phase apart where
  /// several go from one rank to another; its reader gives the same.
  void code_dense(std::span<const float> x, int to, Message& message,
                  std::vector<float>& error, std::uint64_t offset = 0);

  /// The same for positions alone, and for plain 32-bit words.
  void code_positions(std::span<const std::uint32_t> index, Region region, int to,
                      Message& message);
  void code_words(std::span<const std::uint32_t> words, int to, Message& message);

  /// Starts sending; `message` must stay as it is until flush().
  void start_send(int to, const Message& message);
  /// Starts receiving; `message` must stay put until finish_receive(from). Receives from
  /// one rank finish in the order they were started.
  void start_receive(int from, Message& message, std::size_t limit);
  /// Ends the job, on all ranks, where the message was damaged on its way from `from`, which
  /// need not be the rank that made it.
  void finish_receive(int from);
  /// The same for a packet, whose messages are looked at one by one: see unpack().
  void finish_receive_packet(int from);
  void require_undamaged(const Message& message, int from);
  /// Waits until everything that was sent has been taken, or all but the `latest` sends.
  void flush() { flush_but(0); }
  void flush_but(std::size_t latest);

  /// Replaces `pairs` with what `message`, made by rank `from` for `to`, holds.
  void read(const Message& message, int from, int to, Region region, std::uint64_t most,
            Sparse& pairs);
  /// The same for a message that this rank has made of `mine` itself, in less time.
  static void read_back(const Message& message, SparseView mine, Sparse& pairs);
  void read_dense(const Message& message, int from, int to, std::span<float> x, bool add,
                  std::uint64_t offset = 0);
  void read_positions(const Message& message, int from, int to, Region region,
                      std::uint64_t most, std::vector<std::uint32_t>& index);
  void read_words(const Message& message, int from, int to,
                  std::span<std::uint32_t> words);

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
  core::Stamp stamp(int from, int to, std::uint64_t region_size,
                    std::uint64_t offset = 0) const;
  core::Stamp words_stamp(int from, int to, std::uint64_t count) const;
  [[noreturn]] void refuse(const Message& message, int from, const core::Fault& fault,
                           std::uint64_t region_size);
  Message take_received(int from);
  [[noreturn]] void disagree(int with, const std::string& differences);
  void compare(const Message& message, int from);
  template <typename E>
  [[noreturn]] void end(const E& error);
  void wait(Pending message);
  std::string where() const;

  Transport& link_;
  const Subgroup everyone_;
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

  Sparse positions_;  // where messages of positions alone are read to
  struct Receive {
    Pending pending;
    Message message;
  };
  std::deque<Pending> sends_;
  std::vector<std::deque<Receive>> receives_;  // by rank of the sender
};

}  // namespace topknot::collective
