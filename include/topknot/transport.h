// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topknot {

class LinkError;

enum class Pending : std::uint64_t {};  ///< a message on its way; wait() for it once

/// One rank's end of a private channel between all ranks. Messages between two ranks
/// arrive in order: no tags, no receive "from anyone", so runs can be replayed. Used by
/// one thread at a time. Messages that were started make progress whichever of them is
/// waited for, so two ranks may both send before they receive.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// Starts a message. Its bytes must stay put until wait() has returned.
  [[nodiscard]] virtual Pending send(int to, std::span<const std::byte> bytes) = 0;
  /// The same, and the channel has a share in the bytes for as long as anything may read
  /// them: also when wait() throws or is never called, and after the channel's own end.
  [[nodiscard]] virtual Pending send_shared(
      int to, std::shared_ptr<const std::vector<std::byte>> bytes) {
    return send(to, *bytes);
  }
  /// `into` is resized to what the peer sent, at most `limit` bytes. Of a longer message it
  /// gets the first `limit` bytes, and wait() throws OverlongError. `into` must stay put,
  /// untouched, until wait() has returned.
  [[nodiscard]] virtual Pending recv(int from, std::vector<std::byte>& into,
                                     std::size_t limit) = 0;
  /// Throws LinkError when the message cannot arrive any more: at the deadline, naming the
  /// rank that is lost, or when another rank has reported a failure. The ranks name the same
  /// rank. All channels between them are then dead.
  virtual void wait(Pending message) = 0;
  /// Ends all channels between these ranks, on every rank, with `cause`: their waits throw
  /// the same error. For a rank that received what it cannot continue after.
  virtual void fail(const LinkError& cause) noexcept { static_cast<void>(cause); }
  /// Gives up all that is under way; the channel is then dead. From then on nothing is
  /// written into memory that was handed to recv(). Memory that was handed to send() may be
  /// read until the process ends: send_shared() takes care of it.
  virtual void abandon() noexcept {}

  /// The network library's own dense sum (MPI_Allreduce, c10d): the honest yardstick. Its
  /// order of additions is its own. Returns false, with `x` untouched, where there is
  /// none.
  [[nodiscard]] virtual bool allreduce(std::span<float> x) = 0;

  /// Seconds, by the transport's clock.
  virtual double now() const noexcept = 0;

  /// Which host `rank` is on: equal for ranks that share one, and a number of no other
  /// meaning. Where that is not known every rank is on its own.
  virtual int node_of(int rank) const noexcept { return rank; }

  /// Another channel between the same ranks. All ranks ask for the same ids in the same
  /// order; the parent must outlive it.
  virtual std::unique_ptr<Transport> channel(int id) = 0;
};

}  // namespace topknot
