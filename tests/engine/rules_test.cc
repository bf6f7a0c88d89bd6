// SPDX-License-Identifier: Apache-2.0
#include "engine/rules.h"

#include <gtest/gtest.h>

#include <string>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot::engine {
namespace {

/// The plain recursive meaning of a glob.
bool oracle(std::string_view glob, std::string_view name) {
  if (glob.empty()) return name.empty();
  if (glob[0] == '*')
    return oracle(glob.substr(1), name) ||
           (!name.empty() && oracle(glob, name.substr(1)));
  return !name.empty() && (glob[0] == '?' || glob[0] == name[0]) &&
         oracle(glob.substr(1), name.substr(1));
}

TEST(Matches, AgreesWithItsMeaningOnAllShortGlobs) {
  const std::string alphabet = "ab*?";
  std::vector<std::string> globs = {""};
  std::vector<std::string> names = {""};
  for (std::size_t i = 0; globs[i].size() < 4; ++i)
    for (const char one : alphabet) globs.push_back(globs[i] + one);
  for (std::size_t i = 0; names[i].size() < 5; ++i)
    for (const char one : {'a', 'b'}) names.push_back(names[i] + one);
  for (const std::string& glob : globs)
    for (const std::string& name : names)
      ASSERT_EQ(matches(glob, name), oracle(glob, name)) << glob << " " << name;
}

TEST(Matches, EndsQuicklyOnManyStars) {
  std::string glob;
  for (int i = 0; i < 50; ++i) glob += "*a";
  EXPECT_FALSE(matches(glob + "b", std::string(2000, 'a')));
}

TEST(Rule, IsAGlobAndADensity) {
  const Rule dense = Rule::parse("classifier.*=dense");
  EXPECT_EQ(dense.glob, "classifier.*");
  EXPECT_EQ(dense.density, 1);
  EXPECT_EQ(Rule::parse("embed*=0.05").density, 0.05);
  for (const std::string bad : {"", "x", "=0.1"})
    EXPECT_REFUSAL(
        Rule::parse(bad), ConfigError,
        "A rule is written name=dense or name=0.05, with * in the name for any "
        "characters; \"" +
            bad + "\" is not.");
  for (const std::string bad : {"", "0", "2", "0.1y", "sparse"})
    EXPECT_REFUSAL(Rule::parse("x=" + bad), ConfigError,
                   "The rule for x asks for " + bad +
                       ", which is neither dense nor a density in (0, 1].");
}

TEST(Densities, SendsBiasesAndNormsWholeAndObeysTheFirstRule) {
  Layout layout;
  std::uint64_t offset = 0;
  const auto add = [&](std::string name, std::vector<std::uint64_t> shape) {
    layout.tensors.push_back({std::move(name), offset, std::move(shape)});
    offset += layout.tensors.back().size();
  };
  add("conv1.weight", {8, 3, 3, 3});
  add("conv1.bias", {8});
  add("embed.weight", {100, 16});
  add("norm.weight", {8});
  add("fc.weight", {10, 8});
  const auto groups =
      Densities({.rules = {"embed.*=0.1", "fc.weight=dense", "*.w*=0.5"}}).group(layout);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].density, 0.1);
  EXPECT_EQ(groups[0].tensors, (std::vector<std::size_t>{2}));
  EXPECT_EQ(groups[1].density, 0.5);
  EXPECT_EQ(groups[1].tensors, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(groups[2].density, 1);
  EXPECT_EQ(groups[2].tensors, (std::vector<std::size_t>{1, 4}));

  const auto plain = Densities(EngineOptions{}).group(layout);
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[0].tensors, (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_EQ(plain[1].tensors, (std::vector<std::size_t>{1, 3}));

  const auto alike = Densities({.dense_vectors = false}).group(layout);
  ASSERT_EQ(alike.size(), 1U);
  EXPECT_EQ(alike[0].tensors, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(Densities, SendsNamedParametersWholeButLeavesThemInTheirBuckets) {
  const Layout layout{{{"a", 0, {2, 2}}, {"b", 4, {2, 2}}, {"c", 8, {2}}}};
  const Densities some({.whole = {"b", "no-such"}});
  EXPECT_EQ(some.sent_whole(layout), (std::vector<bool>{false, true, true}));
  const auto buckets = some.group_for_buckets(layout);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(buckets[1].tensors, (std::vector<std::size_t>{2}));
}

TEST(Densities, SendEverythingWholeWithADenseCollective) {
  const Layout layout{{{"a", 0, {2, 2}}, {"b", 4, {2}}}};
  const Densities dense({.scheme = "dense", .density = 0.01, .rules = {"a=0.5"}});
  ASSERT_EQ(dense.group(layout).size(), 1U);
  EXPECT_EQ(dense.group(layout)[0].density, 1);
  EXPECT_FALSE(dense.sets_whole_apart());
  EXPECT_EQ(dense.sent_whole(layout), (std::vector<bool>{true, true}));
  EXPECT_EQ(Densities(EngineOptions{}).sent_whole(layout),
            (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace topknot::engine
