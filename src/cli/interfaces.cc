// SPDX-License-Identifier: Apache-2.0
#include "cli/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

/// What the kernel tells of an interface.
std::filesystem::path system_folder(const std::string& name) {
  return std::filesystem::path("/sys/class/net") / name;
}

bool leads_nowhere(const std::string& name) {
  std::error_code none;
  if (std::filesystem::exists(system_folder(name) / "bridge", none)) {
    // A bridge that a real interface is a port of is the host's way out.
    for (const auto& port :
         std::filesystem::directory_iterator(system_folder(name) / "brif", none))
      if (std::filesystem::exists(system_folder(port.path().filename()) / "device", none))
        return false;
    return true;
  }
  return false;
}

std::optional<int> speed(const std::string& name) {
  std::ifstream stream(system_folder(name) / "speed");
  int mbit = 0;
  if (stream >> mbit && mbit > 0) return mbit;
  return std::nullopt;
}

std::string ipv4_text(const ifaddrs& entry) {
  const auto* address = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
  const auto* mask = reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask);
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
  if (mask == nullptr) return text;
  return std::string(text) + "/" + std::to_string(std::popcount(mask->sin_addr.s_addr));
}

std::string list_of(const std::vector<Interface>& some) {
  std::string text;
  for (const Interface& one : some) text += (text.empty() ? "" : ", ") + to_text(one);
  return text;
}

// Each names the interfaces that a library may use, or may not.
constexpr const char* kIncluded[] = {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES",
                                     "FI_TCP_IFACE"};
constexpr const char* kExcluded = "OMPI_MCA_btl_tcp_if_exclude";

}  // namespace

std::vector<Interface> find_interfaces() {
  std::vector<Interface> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    Interface* known = nullptr;
    for (Interface& one : all)
      if (one.name == entry->ifa_name) known = &one;
    if (known == nullptr) {
      known = &all.emplace_back();
      known->name = entry->ifa_name;
      known->up =
          (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
      known->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      known->local = leads_nowhere(known->name);
      known->mbit = speed(known->name);
    }
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
        known->address.empty())
      known->address = ipv4_text(*entry);
  }
  freeifaddrs(first);
  return all;
}

std::string to_text(const Interface& interface) {
  std::string text = interface.name + " (" + interface.address;
  if (interface.mbit) text += ", " + std::to_string(*interface.mbit) + " Mbit/s";
  return text + ")";
}

std::vector<Interface> usable(const std::vector<Interface>& all) {
  std::vector<Interface> some;
  for (const Interface& one : all)
    if (one.up && !one.address.empty() && !one.loopback && !one.local)
      some.push_back(one);
  return some;
}

void require_usable(const std::string& name, const std::vector<Interface>& all) {
  const Interface* found = nullptr;
  for (const Interface& one : all)
    if (one.name == name) found = &one;
  std::string wrong;
  if (found == nullptr)
    wrong = "There is no network interface " + name + " on this host";
  else if (!found->up)
    wrong = "The network interface " + name + " is down";
  else if (found->address.empty())
    wrong = "The network interface " + name + " has no IPv4 address";
  if (wrong.empty()) return;
  const std::string others = list_of(usable(all));
  throw ConfigError(wrong + "; " +
                    (others.empty() ? "no other leads to other hosts, either."
                                    : "those that can be used are " + others + "."));
}

void choose_interface(const std::string& name) {
  const std::vector<Interface> all = find_interfaces();
  if (!name.empty()) {
    require_usable(name, all);
    for (const char* variable : kIncluded) setenv(variable, name.c_str(), 1);
    unsetenv(kExcluded);  // Open MPI refuses both
    return;
  }
  if (std::getenv(kIncluded[0]) != nullptr || std::getenv(kExcluded) != nullptr) return;
  std::string excluded = "127.0.0.0/8";
  for (const Interface& one : all)
    if (one.local) excluded += "," + one.name;
  setenv(kExcluded, excluded.c_str(), 1);
}

std::string interfaces_in_use() {
  for (const char* variable : kIncluded)
    if (const char* names = std::getenv(variable)) return names;
  return list_of(usable(find_interfaces()));
}

}  // namespace topknot::cli
