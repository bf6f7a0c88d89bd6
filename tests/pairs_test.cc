// SPDX-License-Identifier: Apache-2.0
//
// Any compressor with any collective that can use it: the law does not ask who selected.
#include <gtest/gtest.h>

#include <mutex>

#include "contract.h"
#include "ranks.h"
#include "topknot/error.h"

namespace topknot::testing {
namespace {

bool refused(std::string_view compressor, std::string_view collective) {
  try {
    check_pair(Spec::parse(compressor), Spec::parse(collective));
    return false;
  } catch (const ConfigError&) {
    return true;
  }
}

TEST(Pairs, AreRefusedWithAReasonAndANeighbourThatWorks) {
  try {
    check_pair(Spec::parse("gaussiank"), Spec::parse("exdyna"));
    FAIL() << "exdyna never asks its compressor";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "The collective exdyna cannot work with the compressor gaussiank: it "
                 "selects by itself, in a part that is each rank's own. Leave the "
                 "compressor out, or take gaussiank with the collective knot.");
  }
  for (const CompressorEntry& compressor : compressors())
    EXPECT_FALSE(refused(compressor.name, "knot")) << compressor.name;
}

TEST(Pairs, OfEverySchemeAreAllowed) {
  for (const Scheme& scheme : schemes())
    EXPECT_FALSE(refused(scheme.compressor, scheme.collective)) << scheme.name;
}

TEST(EveryPair, LosesNothing) {
  std::vector<Case> cases;
  for (const CollectiveEntry& collective : collectives())
    for (const CompressorEntry& compressor : compressors()) {
      if (refused(compressor.name, collective.name)) continue;
      for (const Data data : {Data::integers, Data::zeros})
        for (const std::size_t n : {100, 1000})
          cases.push_back({.collective = std::string(collective.name),
                           .compressor = std::string(compressor.name),
                           .n = n,
                           .k = 17,
                           .data = data,
                           .steps = 4,
                           .in_place = n == 100});
    }
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
