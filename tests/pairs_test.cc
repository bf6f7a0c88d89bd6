// SPDX-License-Identifier: Apache-2.0
//
// Any compressor with any collective: the law does not ask who selected.
#include <gtest/gtest.h>

#include <mutex>

#include "contract.h"
#include "ranks.h"

namespace topknot::testing {
namespace {

TEST(EveryPair, LosesNothing) {
  std::vector<Case> cases;
  for (const CollectiveEntry& collective : collectives())
    for (const CompressorEntry& compressor : compressors())
      for (const Data data : {Data::integers, Data::zeros})
        for (const std::size_t n : {100, 1000})
          cases.push_back({.collective = std::string(collective.name),
                           .compressor = std::string(compressor.name),
                           .n = n,
                           .k = 17,
                           .data = data,
                           .steps = 4,
                           .in_place = n == 100});
  std::mutex mutex;
  for (const int ranks : {3, 4})
    run(ranks, [&](Transport& link) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto part = link.channel(static_cast<int>(i));
        const auto wrong = violation(cases[i], *part);
        const std::scoped_lock lock(mutex);
        EXPECT_FALSE(wrong) << cases[i].str(ranks) << ": " << *wrong;
      }
    });
}

}  // namespace
}  // namespace topknot::testing
