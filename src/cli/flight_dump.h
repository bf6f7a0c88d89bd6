// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of this process did last, dumped when one fails or SIGUSR2 asks for it. A dump is
// the file flight-RANK.jsonl: a line for the rank, then a line for each operation, the oldest first.
// `topknot flight` reads them.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/transport.h"
#include "transports/flight_recorder.h"

namespace topknot::cli {

std::string flight_file(const std::string& folder, int rank);

/// Writes a dump in one piece; what goes wrong is left so. `members` are added to the rank's line, as
/// `,"name":value`. Takes no memory and no lock, for signal handlers.
void write_flight(const char* file, int rank, int ranks, const FlightRecord& record,
                  std::string_view members) noexcept;

/// One of these at a time; SIGUSR2 then dumps all its ranks.
class FlightDumps {
 public:
  /// For the ranks from `first` on, `count` of the job's `ranks`. Removes their dumps of an earlier
  /// run from `folder`. Does nothing at all where that is empty.
  FlightDumps(std::string folder, int first, int count, int ranks);
  ~FlightDumps();
  FlightDumps(const FlightDumps&) = delete;
  FlightDumps& operator=(const FlightDumps&) = delete;

  /// What the rank of `link` is to use in its place, until this is destroyed.
  Transport& stand_before(Transport& link);

  /// Dumps a rank that has failed, if `error` is a LinkError or a ContractError.
  void failed(int rank, const std::exception_ptr& error) noexcept;

 private:
  struct Rank {
    int rank;
    std::string file;
    FlightRecord record;
    std::unique_ptr<Transport> link;
  };
  static void on_signal(int);
  void dump_all() const noexcept;

  const std::string folder_;
  const int first_;
  const int ranks_;
  std::vector<std::unique_ptr<Rank>> own_;
};

}  // namespace topknot::cli
