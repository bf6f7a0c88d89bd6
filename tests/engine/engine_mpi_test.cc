// SPDX-License-Identifier: Apache-2.0
//
// The engine between real processes; run under mpirun.
#include "mpi_main.h"

#include "engine/small_model.h"
#include "ranks.h"
#include "topknot/catalog.h"

namespace topknot {
namespace {

TEST(EngineOverMpi, GivesTheBitsOfRanksThatAreThreads) {
  int channel = 0;
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    EngineOptions made = testing::options(scheme.name);
    made.channel = channel++;
    std::vector<std::vector<float>> expected;
    testing::run(test::world().size(), [&](Transport& link) {
      Engine engine(link, testing::model(), made);
      for (std::uint64_t number = 0; number < 4; ++number) {
        testing::step(engine, link.rank(), number);
        if (link.rank() == 0) expected.push_back(testing::means(engine));
      }
    });
    Engine engine(test::world(), testing::model(), made);
    for (std::uint64_t number = 0; number < 4; ++number) {
      EXPECT_TRUE(testing::step(engine, test::world().rank(), number).finite);
      EXPECT_EQ(testing::means(engine), expected[number]);
    }
  }
}

}  // namespace
}  // namespace topknot

int main(int argc, char** argv) {
  const auto link = topknot::make_mpi();
  return topknot::test::run_all_tests(argc, argv, *link);
}
