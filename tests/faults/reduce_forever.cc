// SPDX-License-Identifier: Apache-2.0
//
// A job that reduces until it is ended, launched and ended as those of the command are:
//
//     mpirun -n 4 reduce_forever FOLDER COLLECTIVE TIMEOUT
//
// Every rank makes the file FOLDER/ready-RANK after its first steps, and dumps what it did last when
// it fails. `reduce_forever FOLDER` says what the dumps say.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <string>

#include "cli/errors.h"
#include "cli/flight_merge.h"
#include "cli/launch.h"
#include "failures.h"

int main(int argc, char** argv) {
  using namespace topknot;
  const std::string folder = argv[1];
  if (argc == 2) {
    const std::string said = cli::first_divergence(cli::read_flight(folder));
    return std::puts(said.c_str()) < 0;
  }
  const std::string collective = argv[2];
  cli::Launch launch;
  launch.link.timeout = std::strtod(argv[3], nullptr);
  launch.flight = folder;
  try {
    cli::run_ranks(launch, 1, [&](Transport& link) {
      testing::reduce_steps(link, collective, 50, 3);
      std::ofstream(folder + "/ready-" + std::to_string(link.rank()));
      testing::reduce_steps(link, collective, 50, std::numeric_limits<int>::max());
    });
  } catch (...) {
    return cli::report_error(std::current_exception());
  }
}
