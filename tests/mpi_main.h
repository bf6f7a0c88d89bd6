// SPDX-License-Identifier: Apache-2.0
//
// What every *_mpi_test.cc ends with. The tests run on all ranks at once, in the same
// order, and talk over world(); rank 0 reports, the others print only failures.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "topknot/transports.h"

namespace topknot::test {

inline Transport*& world_pointer() {
  static Transport* pointer = nullptr;
  return pointer;
}

/// The channel that main() made.
inline Transport& world() { return *world_pointer(); }

class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() != nullptr ? result.file_name() : "somewhere";
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world().rank(), file,
                 result.line_number(), result.message());
  }
};

/// Runs all tests over `link`. With --ranks=N it first makes sure that there are N of
/// them: a launcher of another MPI starts N jobs of one rank, in which most tests would
/// pass.
inline int run_all_tests(int argc, char** argv, Transport& link) {
  ::testing::InitGoogleTest(&argc, argv);
  world_pointer() = &link;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--ranks=", 0) != 0) continue;
    const int ranks = std::atoi(argument.c_str() + std::string("--ranks=").size());
    if (ranks == link.size()) continue;
    std::fprintf(stderr,
                 "%d ranks were started, but MPI sees %d: mpirun is of another MPI than "
                 "the library\n",
                 ranks, link.size());
    return 1;
  }
  if (link.rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  return RUN_ALL_TESTS();
}

}  // namespace topknot::test
