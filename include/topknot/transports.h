// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "topknot/transport.h"

namespace topknot {

struct LinkOptions {
  /// How long a wait may last, in seconds, before a rank is looked for that is lost.
  double timeout = 60.0;
  /// The longest message that the network library gets in one piece; longer ones are split.
  std::uint64_t max_chunk = std::uint64_t{1} << 30;
};

/// The ends of a channel between `size` ranks that are threads of this process, rank by
/// rank.
std::vector<std::unique_ptr<Transport>> make_inproc(int size,
                                                    const LinkOptions& options = {});

/// This process's end of a channel between all processes of an MPI job. Starts MPI if it is
/// not started yet, and then also ends it. In the library topknot_mpi.
std::unique_ptr<Transport> make_mpi(const LinkOptions& options = {});

/// Ends all processes of the MPI job at once, including this one; the launcher ends with
/// `exit_code`. For a program whose rank has failed while others wait for it: a normal exit
/// would wait for them. In the library topknot_mpi.
void end_mpi_job(int exit_code) noexcept;

/// What one rank sent over a channel and all channels made from it, and what it took.
struct Traffic {
  std::vector<std::uint64_t> bytes_to;     ///< by rank of the receiver
  std::vector<std::uint64_t> messages_to;  ///< by rank of the receiver
  std::vector<double> wait_seconds_for;    ///< inside wait(), by rank of the other end
  double wait_seconds = 0;                 ///< their sum
  double encode_seconds = 0;
  double decode_seconds = 0;

  bool keeps_spans = false;      ///< set by whoever takes them out
  std::vector<PhaseSpan> spans;  ///< of the waits and of coding, in their order

  /// Adds the counts and times, not the spans.
  void add(const Traffic& other);

  std::uint64_t bytes() const;
  std::uint64_t messages() const;
};

/// A channel that forwards everything to `link` and counts it. A native allreduce of n floats
/// counts as 2n(P-1)/P words in 2(P-1) messages to the next rank, because the messages inside it
/// cannot be seen. The thread that uses the channel reads `traffic`, between steps.
std::unique_ptr<Transport> make_metered(std::unique_ptr<Transport> link,
                                        std::shared_ptr<Traffic> traffic);

}  // namespace topknot
