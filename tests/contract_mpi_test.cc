// SPDX-License-Identifier: Apache-2.0
//
// The contract of contract_test.cc between real processes; run under mpirun.
#include <gtest/gtest.h>

#include "contract.h"
#include "topknot/transports.h"

namespace topknot::testing {
namespace {

Transport* world = nullptr;

TEST(EveryCollectiveOverMpi, AgreesOnTheSumAndLosesNothing) {
  int channel = 0;
  for (const CollectiveEntry& entry : collectives())
    for (const char* parameters : {"", ":coding=plain", ":values=bf16"})
      for (const std::size_t n : awkward_sizes(world->size()))
        for (const std::size_t k : awkward_ks(world->size(), n))
          for (const Data data : {Data::integers, Data::random}) {
            const Case c{.collective = std::string(entry.name) + parameters,
                         .compressor = std::string(default_compressor(entry.name)),
                         .n = n,
                         .k = k,
                         .data = data,
                         .in_place = (n + k) % 2 == 0};
            const auto part = world->channel(channel++);
            const auto wrong = violation(c, *part);
            EXPECT_FALSE(wrong) << c.str(world->size()) << ": " << *wrong;
          }
}

}  // namespace
}  // namespace topknot::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto link = topknot::make_mpi();
  topknot::testing::world = link.get();
  if (link->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  return RUN_ALL_TESTS();
}
