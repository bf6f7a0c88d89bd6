// SPDX-License-Identifier: Apache-2.0
//
// How a library would carry the messages of a collective, on the same wire. What is assumed of each is in
// docs/simulator.md; none but MPI was measured.
#pragma once

#include <string_view>

#include "topknot/simulated.h"

namespace topknot::sim {

class Personality {
 public:
  enum class Kind {
    mpi,   ///< two-sided, any length: as the network has it
    nccl,  ///< a launch for each message, and both sides must know its length beforehand
    nvshmem,  ///< a put into the receiver's memory, and a notification behind it
  };

  /// Throws ConfigError, with the names there are.
  static Personality find(std::string_view name);

  Personality(Kind kind = Kind::mpi) : kind_(kind) {}
  /// The same for an exchange whose lengths are known beforehand, as those of a dense sum are: with
  /// nccl it is one call of the library.
  Personality of_known_lengths() const;

  /// The bytes on the wire for a message of `bytes`.
  double carried(double bytes) const;
  /// The same network with this library's own time for each message.
  Network on(Network network) const;
  /// Seconds of an exchange beside its messages.
  double once() const;

 private:
  Kind kind_;
  bool known_lengths_ = false;
};

}  // namespace topknot::sim
