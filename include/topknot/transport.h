// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "topknot/trace.h"

namespace topknot {

class LinkError;

enum class Pending : std::uint64_t {};  ///< a message under way; wait() for it once

/// One rank's end of a private channel between all ranks. Messages between two ranks arrive
/// in order. There are no tags and no receive from any rank, so a run can be repeated exactly.
/// One thread at a time uses a channel. All messages that were started make progress during a
/// wait for any of them, so two ranks may both send before they receive.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// Starts a message. The memory of `bytes` must stay valid until wait() has returned.
  [[nodiscard]] virtual Pending send(int to, std::span<const std::byte> bytes) = 0;
  /// The same, and the channel shares ownership of the bytes for as long as anything may read
  /// them: also when wait() throws or is never called, and after the channel is destroyed. The
  /// default shares nothing, for transports that read no bytes after wait() has returned.
  [[nodiscard]] virtual Pending send_shared(
      int to, std::shared_ptr<const std::vector<std::byte>> bytes) {
    return send(to, *bytes);
  }
  /// Receives the next message of `from`: `into` gets its bytes, at most `limit`. Of a longer
  /// message it gets the first `limit` bytes, and wait() throws OverlongError. `into` must stay
  /// valid and unchanged until wait() has returned.
  [[nodiscard]] virtual Pending recv(int from, std::vector<std::byte>& into,
                                     std::size_t limit) = 0;
  /// Returns when the message has been sent or received. Throws LinkError when it cannot arrive
  /// any more: at the deadline, naming the rank that is lost, or when another rank has reported
  /// a failure. All ranks name the same rank, and all channels between them have then failed.
  virtual void wait(Pending message) = 0;
  /// Makes all channels between these ranks fail, on every rank: their waits throw `cause`. For
  /// a rank that has received something it cannot continue with.
  virtual void fail(const LinkError& cause) noexcept { static_cast<void>(cause); }
  /// Gives up all messages under way; the channel cannot be used after that. Nothing is written
  /// into the memory of a recv() any more. The memory of a send() may be read until the process
  /// ends, for which there is send_shared().
  virtual void abandon() noexcept {}

  /// Waits on this channel may last so many seconds, whatever the job's timeout. For messages that
  /// wait for something slow, as a disk; all ranks ask for the same before they use the channel.
  /// The default takes no notice, for transports without deadlines.
  virtual void allow(double seconds) { static_cast<void>(seconds); }

  /// The network library's own dense sum (MPI_Allreduce, c10d), to compare with. The library
  /// chooses the order of additions. Returns false, with `x` unchanged, where there is none.
  [[nodiscard]] virtual bool allreduce(std::span<float> x) = 0;

  /// Tells a transport that measures that this rank has just spent so long on coding or reading a
  /// message. The default takes no notice.
  virtual void spent(Phase phase, double seconds) noexcept {
    static_cast<void>(phase);
    static_cast<void>(seconds);
  }

  /// Seconds of a clock that never goes back.
  virtual double now() const noexcept = 0;

  /// The host of `rank`, as a number that is equal for ranks on the same host and has no other
  /// meaning. Where hosts are not known, every rank has one of its own.
  virtual int node_of(int rank) const noexcept { return rank; }

  /// Makes another channel between the same ranks. All ranks ask for the same ids in the same
  /// order. This channel must outlive the new one.
  virtual std::unique_ptr<Transport> channel(int id) = 0;
};

}  // namespace topknot
