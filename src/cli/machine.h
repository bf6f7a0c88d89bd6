// SPDX-License-Identifier: Apache-2.0
//
// The machine and the versions, as a run records them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace topknot::cli {

/// Host, processor, cores, memory, system; what cannot be found out is missing.
nlohmann::ordered_json describe_machine();

/// Of topknot, its commit and the compiler, and of torch, where that is given.
nlohmann::ordered_json describe_versions(const std::string& torch = {});

/// The commit of the sources, "-dirty" behind it where they were edited; or "unknown".
std::string built_from();

/// "2026-11-16T09:30:00Z"
std::string time_now();

/// Memory that is free for a program; 0 where that cannot be found out.
std::uint64_t free_memory_bytes();

/// The most memory this process has ever had at once.
std::uint64_t peak_memory_bytes();

}  // namespace topknot::cli
