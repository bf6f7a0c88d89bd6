// SPDX-License-Identifier: Apache-2.0
#include "transports/network.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/names.h"
#include "topknot/error.h"

namespace topknot {
namespace {

constexpr double kMicro = 1e-6;
// Through shared memory.
constexpr LinkSpeed kInside{
    .bandwidth = 10e9, .latency = 1 * kMicro, .overhead = 0.5 * kMicro};

constexpr LinkSpeed line(double gbps, double latency, double overhead) {
  return {.bandwidth = gbps * 1e9 / 8 * kPayloadShare,
          .latency = latency,
          .overhead = overhead};
}

// Latencies are those of a program's message, through the kernel where it has to go there. The
// overhead of a message is a system call on Ethernet, and a write to the card on InfiniBand.
constexpr NetworkPreset kPresets[] = {
    {"1gbe", 1, "1 Gb/s Ethernet", {line(1, 50 * kMicro, 5 * kMicro), kInside}},
    {"10gbe", 10, "10 Gb/s Ethernet", {line(10, 25 * kMicro, 5 * kMicro), kInside}},
    {"25gbe", 25, "25 Gb/s Ethernet", {line(25, 20 * kMicro, 5 * kMicro), kInside}},
    {"100gbe", 100, "100 Gb/s Ethernet", {line(100, 15 * kMicro, 5 * kMicro), kInside}},
    {"400gbe", 400, "400 Gb/s Ethernet", {line(400, 10 * kMicro, 5 * kMicro), kInside}},
    {"hdr", 200, "InfiniBand HDR", {line(200, 1.5 * kMicro, 0.5 * kMicro), kInside}},
    {"wan", 0.1, "100 Mb/s at 50 ms", {line(0.1, 0.05, 5 * kMicro), kInside}},
};

void check(const LinkSpeed& link, std::string_view which) {
  const auto is_time = [](double x) { return x >= 0 && std::isfinite(x); };
  if (link.bandwidth > 0 && std::isfinite(link.bandwidth) && is_time(link.latency) &&
      is_time(link.overhead) && is_time(link.burst))
    return;
  throw ConfigError(
      "The link " + std::string(which) +
      " needs a bandwidth above 0, and a latency, an overhead and a burst that "
      "are 0 or more.");
}

}  // namespace

std::span<const NetworkPreset> network_presets() { return kPresets; }

const NetworkPreset& find_network(std::string_view name) {
  std::vector<std::string> names;
  for (const NetworkPreset& preset : kPresets) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  throw ConfigError("There is no network named " + std::string(name) +
                    core::suggestion(name, names) + ".");
}

LinkSpeed line_speed(double gbps, double latency, double overhead) {
  return line(gbps, latency, overhead);
}

}  // namespace topknot

namespace topknot::transports {

Ports::Ports(const Network& network, int ranks) : network_(network) {
  check(network.between, "between nodes");
  if (network.ranks_per_node < 1)
    throw ConfigError("A node has at least 1 rank, not " +
                      std::to_string(network.ranks_per_node) + ".");
  if (network.ranks_per_node > 1) check(network.inside, "inside a node");
  for (Direction* direction : {&out_, &in_}) {
    direction->of_ranks.resize(static_cast<std::size_t>(ranks));
    direction->of_nodes.resize(static_cast<std::size_t>(node_of(ranks - 1)) + 1);
  }
}

const LinkSpeed& Ports::link(int from, int to) const {
  return node_of(from) == node_of(to) && from != to ? network_.inside : network_.between;
}

Ports::Port& Ports::Direction::port(const Ports& ports, int rank, bool inside) {
  return inside ? of_ranks[static_cast<std::size_t>(rank)]
                : of_nodes[static_cast<std::size_t>(ports.node_of(rank))];
}

Ports::Port::Service Ports::Port::serve(const LinkSpeed& link, std::size_t bytes,
                                        double time) {
  const double begin = std::max(time, through_);
  const double rested = time - link.burst / link.bandwidth;
  through_ = std::max(through_, rested) + static_cast<double>(bytes) / link.bandwidth;
  return {begin, std::max(time, through_)};
}

// What a rank sends to itself is there at once.
Ports::Departure Ports::send(int from, int to, std::size_t bytes, double time) {
  if (from == to) return {time, time};
  const LinkSpeed& speed = link(from, to);
  const bool inside = node_of(from) == node_of(to);
  const auto served = out_.port(*this, from, inside).serve(speed, bytes, time);
  return {served.end, served.begin + speed.latency};
}

double Ports::receive(int from, int to, std::size_t bytes, double heard, double last) {
  if (from == to) return last;
  const bool inside = node_of(from) == node_of(to);
  return std::max(last,
                  in_.port(*this, to, inside).serve(link(from, to), bytes, heard).end);
}

}  // namespace topknot::transports
