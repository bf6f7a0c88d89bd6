// SPDX-License-Identifier: Apache-2.0
//
// Every collective on every small input there is: all gradients of length 3 over a small
// alphabet, on 2 ranks; of length 2, on 3 ranks; every k.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ranks.h"
#include "topknot/catalog.h"

namespace topknot::testing {
namespace {

constexpr float kAlphabet[] = {0, 1, -1, 2};

/// The digits of `code` in base 4, as letters.
std::vector<float> word(std::size_t code, std::size_t length) {
  std::vector<float> letters(length);
  for (float& letter : letters) {
    letter = kAlphabet[code % 4];
    code /= 4;
  }
  return letters;
}

std::size_t power(std::size_t base, std::size_t exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

void hold_all_words(const std::string& name, std::size_t ranks, std::size_t n) {
  const std::size_t words = power(4, ranks * n);
  std::vector<std::vector<float>> sums(ranks);
  std::vector<std::vector<float>> debts(ranks);
  // Each rank writes what it has of all words; they are compared when all are done.
  run(static_cast<int>(ranks), [&](Transport& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const Layout layout = Layout::flat(n);
    for (std::size_t k = 0; k <= n + 1; ++k) {
      const auto channel = link.channel(static_cast<int>(k));
      const auto pick = make_compressor(Spec::parse(default_compressor(name)), layout);
      const auto made = make_collective(Spec::parse(name), *channel, *pick, layout);
      for (std::size_t code = 0; code < words; ++code) {
        std::vector<float> acc(n);
        std::vector<float> grad = word(code / power(power(4, n), rank), n);
        made->reduce(acc, grad, k, grad);
        sums[rank].insert(sums[rank].end(), grad.begin(), grad.end());
        debts[rank].insert(debts[rank].end(), acc.begin(), acc.end());
      }
    }
  });
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    const std::size_t code = i / n % words;
    float owed = 0;
    float accounted = sums[0][i];
    for (std::size_t r = 0; r < ranks; ++r) {
      ASSERT_EQ(sums[r][i], sums[0][i]) << "rank " << r << " disagrees on word " << code;
      owed += word(code / power(power(4, n), r), n)[i % n];
      accounted += debts[r][i];
    }
    ASSERT_EQ(accounted, owed) << "word " << code << ", k=" << i / n / words;
  }
}

TEST(EverySmallInput, KeepsTheLawOnTwoRanks) {
  for (const CollectiveEntry& entry : collectives()) {
    SCOPED_TRACE(entry.name);
    hold_all_words(std::string(entry.name), 2, 3);
  }
}

TEST(EverySmallInput, KeepsTheLawOnThreeRanks) {
  for (const CollectiveEntry& entry : collectives()) {
    SCOPED_TRACE(entry.name);
    hold_all_words(std::string(entry.name), 3, 2);
  }
}

}  // namespace
}  // namespace topknot::testing
