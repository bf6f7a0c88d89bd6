// SPDX-License-Identifier: Apache-2.0
//
// When a message leaves a port and when it arrives at one.
//
// A port serves its messages one after the other, at its bandwidth. A message is passed on as it
// comes: its first byte may arrive while its last has not left. So where nothing is in the way it
// takes latency + bytes / bandwidth, and where many senders meet at one receiver, the receiver's
// port is the bottleneck (incast). What waits for a receiver's port does so in the network, and
// the sender's port is free for other messages.
//
// A port with a burst is a token bucket. It is described by one number, the time at which it would
// be through with all it has taken at the given rate; that may lie burst / bandwidth in the past.
#pragma once

#include <cstddef>
#include <vector>

#include "topknot/simulated.h"

namespace topknot::transports {

class Ports {
 public:
  Ports(const Network& network, int ranks);

  /// The link between two ranks.
  const LinkSpeed& link(int from, int to) const;

  struct Departure {
    double left;   ///< when the sender's port is through with it
    double heard;  ///< when its first byte is at the receiver's port
  };
  /// A message of `bytes` is handed to the port of `from` at `time`. Calls are in the order of
  /// time.
  Departure send(int from, int to, std::size_t bytes, double time);
  /// When the last byte is there, of a message whose first byte comes at `heard` and whose last
  /// byte cannot come before `last`. Calls are in the order of `heard`.
  double receive(int from, int to, std::size_t bytes, double heard, double last);

 private:
  /// One direction of a port.
  class Port {
   public:
    struct Service {
      double begin;
      double end;
    };
    Service serve(const LinkSpeed& link, std::size_t bytes, double time);

   private:
    double through_ = -1e300;  // at the given rate; at rest long ago
  };
  struct Direction {
    std::vector<Port> of_nodes;
    std::vector<Port> of_ranks;  // inside their node
    Port& port(const Ports& ports, int rank, bool inside);
  };

  int node_of(int rank) const { return rank / network_.ranks_per_node; }

  const Network network_;
  Direction out_;
  Direction in_;
};

}  // namespace topknot::transports
