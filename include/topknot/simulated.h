// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "topknot/transport.h"

namespace topknot {

/// What a port and the way behind it can do. A message takes overhead + latency + bytes /
/// bandwidth where nothing else is under way. Bytes of other messages are in its way at the
/// sender's port and at the receiver's port.
struct LinkSpeed {
  double bandwidth = 0;  ///< bytes a second, of what a message holds
  double latency = 0;    ///< seconds from a byte's departure to its arrival
  double overhead = 0;   ///< seconds of the sender's own time for each message
  double burst = 0;      ///< bytes that pass at once through a port that has rested
};

/// Nodes with one port each, which the ranks of the node share. Ranks of one node have
/// ports of their own for the messages between them.
struct Network {
  LinkSpeed between;  ///< nodes
  LinkSpeed inside;   ///< a node
  int ranks_per_node = 1;
};

/// The cores of a machine on which all ranks are. Ranks that work wait for them in turn.
struct Cores {
  int count = 0;  ///< 0: every rank has one of its own
  /// Seconds after which a rank that works lets another go first: a tick of the kernel's clock.
  double slice = 4e-3;
};

/// A network by name.
struct NetworkPreset {
  std::string_view name;
  double gbps;  ///< line rate
  std::string_view summary;
  Network network;
};
std::span<const NetworkPreset> network_presets();
/// Throws ConfigError, with the nearest name, when there is none such.
const NetworkPreset& find_network(std::string_view name);

/// The share of a line's rate that is left for what messages hold: 1448 of the 1538 bytes
/// that a frame takes on Ethernet are TCP's payload.
inline constexpr double kPayloadShare = 1448.0 / 1538.0;

/// The speed of a line of so many Gb/s.
LinkSpeed line_speed(double gbps, double latency, double overhead);

/// A message as it leaves its sender. What happens to it can be changed.
struct SimulatedMessage {
  int from = 0;
  int to = 0;
  std::size_t bytes = 0;  ///< that the ports carry, whatever its content
  double time = 0;        ///< when it was handed to the sender's port
  double delay = 0;  ///< seconds that it takes longer; later messages do not overtake it
  bool lost = false;
};

struct SimulationOptions {
  Network network;
  Cores cores;
  /// Of ranks that could continue at the same moment, the seed decides which is first.
  std::uint64_t seed = 1;
  /// How long a wait may last, in virtual seconds, before a rank is looked for that is lost.
  double timeout = 1e6;
  /// Is called with every message, in the order of virtual time.
  std::function<void(SimulatedMessage&)> on_message;
};

/// A channel whose clock is virtual: now() is this rank's own time.
class SimulatedTransport : public Transport {
 public:
  /// This rank works for so long, and does nothing else meanwhile. Where ranks share cores, it
  /// waits for one first.
  virtual void work(double seconds) = 0;
};

/// Runs `rank_main` once for each rank, on a network that is simulated. The ranks are threads,
/// one of which runs at a time: the one whose clock is furthest behind. Real time has no
/// influence, so two calls with equal options and equal programs are equal in everything. A rank
/// may not wait for another by anything but its channels. Returns when all ranks
/// have; throws what the first of them threw, by its own clock.
void run_simulated(int ranks, const SimulationOptions& options,
                   const std::function<void(SimulatedTransport&)>& rank_main);

}  // namespace topknot
