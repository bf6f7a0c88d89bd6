// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of this process did last, dumped when one fails or SIGUSR2 asks for it.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "topknot/transport.h"
#include "transports/flight_recorder.h"

namespace topknot::cli {

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
