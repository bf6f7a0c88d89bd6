// SPDX-License-Identifier: Apache-2.0
//
// A dump of what a rank did last: the file flight-RANK.jsonl, a line for the rank, then a line for
// each operation, the oldest first. `topknot flight` reads them.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "transports/flight_recorder.h"

namespace topknot {

std::string flight_file(const std::string& folder, int rank);

/// Writes a dump in one piece; what goes wrong is left so. `members` are added to the rank's line, as
/// `,"name":value`. Takes no memory and no lock, for signal handlers.
void write_flight(const char* file, int rank, int ranks, const FlightRecord& record,
                  std::string_view members) noexcept;

/// Dumps a rank that fails with `error` into `folder`, which is made, if that is a LinkError or a
/// ContractError.
void dump_flight(const std::string& folder, int rank, int ranks,
                 const FlightRecord& record, const std::exception_ptr& error) noexcept;

}  // namespace topknot
