// SPDX-License-Identifier: Apache-2.0
//
// The network interfaces of this host: which of them the ranks' messages take.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace topknot::cli {

struct Interface {
  std::string name;
  std::string address =
      {};           ///< IPv4 with its prefix, as "10.0.0.5/24"; empty without one
  bool up = false;  ///< and has a carrier
  bool loopback = false;
  bool local = false;  ///< a bridge of containers or virtual machines on this host
  std::optional<int> mbit = {};  ///< where the system knows its speed
};

std::vector<Interface> find_interfaces();

/// "eth0 (10.0.0.5/24, 10000 Mbit/s)"
std::string to_text(const Interface& interface);

/// Those that lead to other hosts: up, with an address, neither loopback nor local.
std::vector<Interface> usable(const std::vector<Interface>& all);

/// Throws ConfigError, with those that are usable, where `name` is none of `all`, is down, or
/// has no address.
void require_usable(const std::string& name, const std::vector<Interface>& all);

/// Before MPI starts: has it use the interface `name`; where that is empty and nobody has
/// chosen, has it leave out local bridges, which lead nowhere but have addresses that look alike
/// on all hosts. The variables are those of Open MPI, UCX and libfabric.
void choose_interface(const std::string& name);

/// What messages to other hosts may take now, for people: what a variable names, else all that are
/// usable. Empty where there is none.
std::string interfaces_in_use();

}  // namespace topknot::cli
