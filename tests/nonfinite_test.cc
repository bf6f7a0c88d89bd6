// SPDX-License-Identifier: Apache-2.0
//
// After a step that is not finite every rank's residual has the bits it had before, for
// every line of the catalog and on values that (residual + grad) - grad does not give back.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "contract.h"
#include "copy_of.h"
#include "ranks.h"
#include "wild.h"

namespace topknot::testing {
namespace {

constexpr std::size_t kN = 4100;
// The first and the last coordinate, and the borders of a word and of a block of the sweep.
constexpr std::size_t kPositions[] = {0, 63, 64, 4095, 4096, kN - 1};
constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};

std::vector<std::string> names_of_collectives() {
  std::vector<std::string> names;
  for (const CollectiveEntry& entry : collectives()) names.emplace_back(entry.name);
  return names;
}

std::vector<float> drawn(int rank, int step) {
  return wild(kN, static_cast<std::uint64_t>(1000 * step + rank + 1));
}

class NonfiniteStep : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& name() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }

  /// One rank of `name() + parameters` and its residual.
  struct Rank {
    Rank(const std::string& spec, const std::string& selects, Transport& link)
        : compressor(make_compressor(Spec::parse(selects), Layout::flat(kN))),
          made(make_collective(Spec::parse(spec), link, *compressor, Layout::flat(kN))),
          residual(drawn(link.rank(), 900)) {}

    /// Whether the step was finite; `in_place` has the sum in the gradient's memory.
    bool step(std::vector<float> grad, std::size_t k, bool in_place) {
      std::vector<float> kept(in_place ? 0 : kN);
      return made->reduce(residual, grad, k, in_place ? grad : kept).finite;
    }

    std::unique_ptr<Compressor> compressor;
    std::unique_ptr<Collective> made;
    std::vector<float> residual;
  };

  void hold(const std::string& spec, std::size_t k) const {
    run(ranks(), [&](Transport& link) {
      Rank rank(spec, std::string(default_compressor(name())), link);
      int step = 0;
      for (int nonfinite = 0; nonfinite < ranks(); ++nonfinite)
        for (const std::size_t position : kPositions) {
          const bool in_place = (static_cast<std::size_t>(nonfinite) + position) % 2 == 0;
          const std::vector<float> before = rank.residual;
          std::vector<float> grad = drawn(link.rank(), ++step);
          if (link.rank() == nonfinite) grad[position] = kBad[step % 3];
          ASSERT_FALSE(rank.step(std::move(grad), k, in_place));
          ASSERT_EQ(bits_of(rank.residual), bits_of(before))
              << spec << " k=" << k << ": rank " << link.rank() << " of " << ranks()
              << " with " << kBad[step % 3] << " at " << position << " of rank "
              << nonfinite;
        }
      ASSERT_TRUE(rank.step(drawn(link.rank(), ++step), k, false));
    });
  }
};

TEST_P(NonfiniteStep, RestoresEveryBitOfEveryRanksResidual) {
  for (const std::size_t k : {std::size_t{0}, kN / 50, kN}) hold(name(), k);
}

TEST_P(NonfiniteStep, RestoresEveryBitWhereValuesAreRounded) {
  hold(name() + ":values=bf16", kN / 50);
  hold(name() + ":values=i8", kN / 50);
}

// Every rank is finite by itself, so all of them fold, exchange and find out at the end.
class OverflowingStep : public NonfiniteStep {};

TEST_P(OverflowingStep, RestoresEveryBitOfEveryRanksResidual) {
  for (const bool in_place : {false, true})
    run(ranks(), [&](Transport& link) {
      Rank rank(name(), std::string(default_compressor(name())), link);
      const std::vector<float> before = rank.residual;
      std::vector<float> grad = drawn(link.rank(), 1);
      grad[77] = std::numeric_limits<float>::max();
      rank.residual[77] = 0;
      ASSERT_FALSE(rank.step(std::move(grad), kN, in_place));
      rank.residual[77] = before[77];
      ASSERT_EQ(bits_of(rank.residual), bits_of(before)) << "rank " << link.rank();
    });
}

INSTANTIATE_TEST_SUITE_P(Catalog, OverflowingStep,
                         ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                                            ::testing::Range(2, 6)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

INSTANTIATE_TEST_SUITE_P(Catalog, NonfiniteStep,
                         ::testing::Combine(::testing::ValuesIn(names_of_collectives()),
                                            ::testing::Range(1, 6)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace topknot::testing
