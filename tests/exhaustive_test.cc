// SPDX-License-Identifier: Apache-2.0
//
// Every collective on every small input there is: all gradients of length 3 over a small
// alphabet, on 2 ranks; of length 2, on 3 ranks; every k. Each is held to the law, and to
// what it promises to agree on.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "promise.h"
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

/// What a rank has of one word, with one k.
struct Outcome {
  std::vector<float> sum;
  std::vector<float> residual;
  std::vector<bool> settled;  // in the sum, or settled
};

Outcome reduce(Collective& made, std::vector<float> grad, std::size_t k) {
  const std::size_t n = grad.size();
  Outcome mine{{}, std::vector<float>(n), std::vector<bool>(n)};
  const Reduced reduced = made.reduce(mine.residual, grad, k, grad);
  if (reduced.index.empty() && reduced.count == n) mine.settled.assign(n, true);
  for (const std::uint32_t i : reduced.index) mine.settled[i] = true;
  for (const std::uint32_t i : reduced.settled) mine.settled[i] = true;
  mine.sum = std::move(grad);
  return mine;
}

/// What is wrong with what all ranks have of one word; nothing if all is well.
std::optional<std::string> violation(const Promise& promised,
                                     const std::vector<std::vector<float>>& words,
                                     std::size_t k,
                                     const std::vector<Outcome>& outcomes) {
  // So late that no collective is in its first steps.
  Agreed agreed{k, 1 << 20, words, outcomes[0].settled, outcomes[0].sum};
  for (std::size_t i = 0; i < words[0].size(); ++i) {
    float before = 0;
    float accounted = outcomes[0].sum[i];
    for (std::size_t r = 0; r < words.size(); ++r) {
      if (outcomes[r].sum[i] != outcomes[0].sum[i]) return "the ranks disagree";
      before += words[r][i];
      accounted += outcomes[r].residual[i];
      if (outcomes[r].settled[i]) agreed.settled[i] = true;
    }
    if (accounted != before) return "something is lost";
  }
  return shortfall(promised, agreed);
}

void hold_all_words(const std::string& name, std::size_t ranks, std::size_t n) {
  const std::size_t count = power(4, ranks * n);
  const auto letters = [&](std::size_t code, std::size_t rank) {
    return word(code / power(power(4, n), rank), n);
  };
  // Each rank writes what it has of all words; they are compared when all are done.
  std::vector<std::vector<Outcome>> outcomes(ranks);
  const Spec selects = Spec::parse(default_compressor(name));
  run(static_cast<int>(ranks), [&](Transport& link) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const Layout layout = Layout::flat(n);
    for (std::size_t k = 0; k <= n + 1; ++k) {
      const auto channel = link.channel(static_cast<int>(k));
      const auto compressor = make_compressor(selects, layout);
      const auto made = make_collective(Spec::parse(name), *channel, *compressor, layout);
      for (std::size_t code = 0; code < count; ++code)
        outcomes[rank].push_back(reduce(*made, letters(code, rank), k));
    }
  });
  const Promise promised = promise_of(Spec::parse(name), selects);
  for (std::size_t at = 0; at < outcomes[0].size(); ++at) {
    std::vector<std::vector<float>> words;
    std::vector<Outcome> by_rank;
    for (std::size_t r = 0; r < ranks; ++r) {
      words.push_back(letters(at % count, r));
      by_rank.push_back(std::move(outcomes[r][at]));
    }
    const auto wrong = violation(promised, words, at / count, by_rank);
    ASSERT_FALSE(wrong) << "word " << at % count << ", k=" << at / count << ": "
                        << *wrong;
  }
}

TEST(EverySmallInput, KeepsTheLawAndThePromiseOnTwoRanks) {
  for (const CollectiveEntry& entry : collectives()) {
    SCOPED_TRACE(entry.name);
    hold_all_words(std::string(entry.name), 2, 3);
  }
}

TEST(EverySmallInput, KeepsTheLawAndThePromiseOnThreeRanks) {
  for (const CollectiveEntry& entry : collectives()) {
    SCOPED_TRACE(entry.name);
    hold_all_words(std::string(entry.name), 3, 2);
  }
}

}  // namespace
}  // namespace topknot::testing
