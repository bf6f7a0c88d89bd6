// SPDX-License-Identifier: Apache-2.0
#include "sim/personality.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/names.h"
#include "topknot/error.h"

namespace topknot::sim {
namespace {

constexpr double kLaunch = 10e-6;    // seconds, of a kernel that sends or receives
constexpr double kPut = 1e-6;        // seconds, of a put
constexpr double kNotification = 8;  // bytes
constexpr double kSmallest = 512;    // bytes of a buffer of fixed size

}  // namespace

Personality Personality::find(std::string_view name) {
  if (name == "mpi") return Kind::mpi;
  if (name == "nccl") return Kind::nccl;
  if (name == "nvshmem") return Kind::nvshmem;
  throw ConfigError("There is no personality named " + std::string(name) +
                    core::suggestion(name, {"mpi", "nccl", "nvshmem"}) + ".");
}

Personality Personality::of_known_lengths() const {
  Personality made = *this;
  made.known_lengths_ = true;
  return made;
}

double Personality::carried(double bytes) const {
  switch (kind_) {
    case Kind::nccl:
      if (known_lengths_) return bytes;
      return std::max(std::exp2(std::ceil(std::log2(std::max(bytes, 1.0)))), kSmallest);
    case Kind::nvshmem:
      return bytes + kNotification;
    case Kind::mpi:
      break;
  }
  return bytes;
}

Network Personality::on(Network network) const {
  for (LinkSpeed* link : {&network.between, &network.inside}) {
    if (kind_ == Kind::nccl && !known_lengths_) link->overhead += kLaunch;
    if (kind_ == Kind::nvshmem) link->overhead = std::min(link->overhead, kPut);
  }
  return network;
}

double Personality::once() const {
  return kind_ == Kind::nccl && known_lengths_ ? kLaunch : 0;
}

}  // namespace topknot::sim
