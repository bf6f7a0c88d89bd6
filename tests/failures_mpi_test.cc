// SPDX-License-Identifier: Apache-2.0
//
// A rank that stops, in every collective, over MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include "failures.h"
#include "mpi_main.h"

namespace topknot::testing {
namespace {

using test::world;

/// Returns when every rank has called it. Lasts longer than a link's timeout.
void meet() {
  std::vector<std::byte> word;
  for (int round = 1; round < world().size(); round *= 2) {
    const int to = (world().rank() + round) % world().size();
    const int from = (world().rank() - round + world().size()) % world().size();
    const Pending sent = world().send(to, {});
    world().wait(world().recv(from, word, 0));
    world().wait(sent);
  }
}

// The rank that is stopped takes part in another job of the same processes, and so answers no
// rank in this one.
TEST(StoppedRank, IsNamedByAllRanksInEveryCollective) {
  if (world().size() < 4) GTEST_SKIP() << "is the same with fewer ranks";
  int stopped = 0;
  for (const std::string& collective : all_collectives(world().size())) {
    stopped = (stopped + 1) % world().size();
    const auto link = make_mpi({.timeout = 1});
    int blamed = -1;
    std::string sentence = "nothing";
    try {
      reduce_steps(*link, collective, 50, 1);
      if (link->rank() != stopped) reduce_steps(*link, collective, 50, 1);
    } catch (const LinkError& error) {
      blamed = error.peer();
      sentence = error.what();
    }
    if (link->rank() != stopped) {
      EXPECT_EQ(blamed, stopped) << collective << ": " << sentence;
    }
    meet();
  }
}

TEST(OtherK, IsADisagreementOnAllRanksInEveryCollective) {
  if (world().size() < 2) GTEST_SKIP() << "needs two ranks";
  int odd = 0;
  for (const std::string& collective : all_collectives(world().size())) {
    odd = (odd + 1) % world().size();
    const auto link = make_mpi({.timeout = 20});
    std::string sentence = "nothing";
    try {
      reduce_steps(*link, collective, link->rank() == odd ? 200 : 50, 1);
    } catch (const DisagreementError& error) {
      sentence = error.what();
    } catch (const LinkError& error) {
      sentence = std::string("a lost peer: ") + error.what();
    }
    EXPECT_NE(sentence.find(" disagree: k is "), std::string::npos)
        << collective << ": " << sentence;
    meet();
  }
}

}  // namespace
}  // namespace topknot::testing

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int status = 1;
  {
    const auto link = topknot::make_mpi({.timeout = 60});
    status = topknot::test::run_all_tests(argc, argv, *link);
  }
  MPI_Finalize();
  return status;
}
