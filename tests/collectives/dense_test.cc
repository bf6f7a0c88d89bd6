// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <mutex>

#include "contract.h"
#include "copy_of.h"
#include "ranks.h"

namespace topknot::testing {
namespace {

TEST(Dense, LosesNothingInSegmentsOfAnyLength) {
  std::mutex mutex;
  for (const int ranks : {1, 2, 3, 5})
    run(ranks, [&](Transport& link) {
      int channel = 0;
      for (const char* parameters : {"segment=1", "segment=3,values=bf16", "segment=100"})
        for (const std::size_t n : {0, 1, 7, 100, 1000}) {
          const Case c{.collective = std::string("dense:") + parameters,
                       .n = n,
                       .k = n,
                       .in_place = n % 2 == 0};
          const auto part = link.channel(channel++);
          const auto wrong = violation(c, *part);
          const std::scoped_lock lock(mutex);
          EXPECT_FALSE(wrong) << c.str(ranks) << ": " << *wrong;
        }
    });
}

// Without a residual the segments are read as they come.
TEST(Dense, GivesTheSameBitsWithoutAResidualAndInOneSegmentOrMany) {
  const std::size_t n = 1003;
  const Case c{.collective = "dense", .n = n, .k = n, .data = Data::random};
  for (const int ranks : {2, 3, 4})
    run(ranks, [&](Transport& link) {
      const Layout layout = Layout::flat(n);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto whole = make_collective(Spec::parse("dense"), link, *compressor, layout);
      std::vector<float> expected = gradient(c, link.rank(), 0);
      whole->reduce({}, expected, n, expected);
      int channel = 0;
      for (const char* spec : {"dense:segment=1", "dense:segment=64"})
        for (const bool with_residual : {false, true}) {
          const auto part = link.channel(channel++);
          const auto made =
              make_collective(Spec::parse(spec), *part, *compressor, layout);
          std::vector<float> residual(with_residual ? n : 0);
          std::vector<float> sum(n);
          made->reduce(residual, copy_of(gradient(c, link.rank(), 0)), n, sum);
          EXPECT_EQ(sum, expected)
              << spec << (with_residual ? " with" : " without") << " a residual";
        }
    });
}

}  // namespace
}  // namespace topknot::testing
