// SPDX-License-Identifier: Apache-2.0
#include "topknot/catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "refusal.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

TEST(Catalog, MakesEverythingItLists) {
  const Layout layout = Layout::flat(10);
  const auto alone = make_inproc(1);
  for (const CompressorEntry& entry : compressors())
    EXPECT_TRUE(make_compressor({std::string(entry.name), {}}, layout)) << entry.name;
  const auto compressor = make_compressor({"topk", {}}, layout);
  for (const CollectiveEntry& entry : collectives())
    EXPECT_TRUE(
        make_collective({std::string(entry.name), {}}, *alone[0], *compressor, layout))
        << entry.name;
  for (const MemoryEntry& entry : memories())
    EXPECT_EQ(make_memory({std::string(entry.name), {}}, layout)->residual().size(), 10U)
        << entry.name;
}

TEST(Catalog, MakesNothingForMoreCoordinatesThanPositionsCanSay) {
  const std::uint64_t many = std::uint64_t{1} << 32;
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor({"topk", {}}, Layout::flat(10));
  for (const Layout& layout : {Layout::flat(many), Layout{{{"a", many - 1, {1}}}},
                               Layout{{{"wraps round 64 bits", 0, {many, many}}}},
                               Layout{{{"the same with its offset", ~0ULL, {2}}}}}) {
    for (const CompressorEntry& entry : compressors())
      EXPECT_THROW(make_compressor({std::string(entry.name), {}}, layout), ConfigError);
    for (const CollectiveEntry& entry : collectives())
      EXPECT_THROW(
          make_collective({std::string(entry.name), {}}, *alone[0], *compressor, layout),
          ConfigError);
    for (const MemoryEntry& entry : memories())
      EXPECT_THROW(make_memory({std::string(entry.name), {}}, layout), ConfigError);
  }
  try {
    make_compressor({"topk", {}}, Layout::flat(many));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 4294967295"), std::string::npos);
  }
}

TEST(Layout, CountsCoordinatesWithoutWrappingRound) {
  const std::uint64_t many = std::uint64_t{1} << 33;
  EXPECT_EQ((TensorSlot{"a", 0, {many, many}}.size()), ~0ULL);
  EXPECT_EQ((TensorSlot{"a", 0, {many, many, 0}}.size()), 0U);
  EXPECT_EQ((TensorSlot{"a", 0, {many, 3}}.size()), 3 * many);
  EXPECT_EQ((TensorSlot{"a", 0, {}}.size()), 1U);
  EXPECT_EQ((Layout{{{"a", ~0ULL - 1, {3}}}}.size()), ~0ULL);
  EXPECT_EQ((Layout{{{"a", 7, {3}}}}.size()), 10U);
}

TEST(Catalog, HasSchemesOfPartsThatExist) {
  const auto alone = make_inproc(1);
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    const auto compressor =
        make_compressor(Spec::parse(scheme.compressor), Layout::flat(10));
    EXPECT_TRUE(make_memory(Spec::parse(scheme.memory), Layout::flat(10)));
    EXPECT_TRUE(make_collective(Spec::parse(scheme.collective), *alone[0], *compressor,
                                Layout::flat(10)));
  }
}

TEST(Catalog, HasNoNameTwice) {
  std::set<std::string_view> names;
  for (const Scheme& scheme : schemes()) EXPECT_TRUE(names.insert(scheme.name).second);
}

TEST(Catalog, GivesEveryCollectiveTheSameWordsForTheWire) {
  for (const CollectiveEntry& entry : collectives()) {
    std::set<std::string> names;
    for (const auto& one : collective_parameters(entry.name)) names.insert(one.name);
    EXPECT_TRUE(names.contains("coding")) << entry.name;
    EXPECT_TRUE(names.contains("values")) << entry.name;
  }
}

TEST(Catalog, SaysTheNearestName) {
  try {
    make_compressor({"topc", {}}, Layout::flat(1));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("nearest is topk"), std::string::npos);
  }
  EXPECT_REFUSAL(
      find_scheme("dence"), ConfigError,
      "There is no scheme named dence; nearest is dense. `topknot list` has all.");
  EXPECT_REFUSAL(
      make_memory({"residul", {}}, Layout::flat(1)), ConfigError,
      "There is no memory named residul; nearest is residual. `topknot list` has all.");
}

TEST(Catalog, HandsOnWhatACollectiveDecidesForItsCompressor) {
  const auto handed = [](const char* compressor, const char* collective) {
    return with_shared(Spec::parse(compressor), Spec::parse(collective)).str();
  };
  EXPECT_EQ(handed("reuse", "oktopk"), "reuse");
  EXPECT_EQ(handed("reuse", "oktopk:workload=bert,tau=9,tau_prime=7,faithful=1"),
            "reuse:faithful=1,tau_prime=7,workload=bert");
  EXPECT_EQ(handed("reuse:tau_prime=3", "oktopk:workload=vgg,tau_prime=7"),
            "reuse:tau_prime=3,workload=vgg");
  EXPECT_EQ(handed("topk", "oktopk:workload=vgg"), "topk");
  EXPECT_EQ(handed("reuse", "knot:schedule=log"), "reuse");
}

TEST(Catalog, KnowsANameByEitherSpelling) {
  EXPECT_EQ(find_scheme("adtopk_threshold").name, "adtopk-threshold");
  EXPECT_EQ(find_scheme("dense_bf16:coding=plain").name, "dense-bf16");
  EXPECT_EQ(parse_compressor("adtopk-threshold:tau=3").str(), "adtopk_threshold:tau=3");
  EXPECT_EQ(parse_collective("allgather-fast").str(), "allgather_fast");
  make_compressor(Spec::parse("adtopk-threshold"), Layout::flat(8));
}

TEST(Catalog, GivesAParameterOfASchemeToThePartThatHasIt) {
  const SchemeParts knot = parse_scheme("knot:values=bf16,decay=0.5");
  EXPECT_EQ(knot.collective.str(), "knot:values=bf16");
  EXPECT_EQ(knot.compressor.str(), "topk");
  EXPECT_EQ(knot.memory.str(), "residual:decay=0.5");
  EXPECT_EQ(parse_scheme("dense-bf16:values=f32").collective.str(), "dense:values=f32");
  EXPECT_THROW(parse_scheme("knot:value=bf16"), ConfigError);
}

TEST(Catalog, HasACostForEveryCollective) {
  for (const CollectiveEntry& entry : collectives()) {
    EXPECT_FALSE(cost_of(entry.name).messages.empty()) << entry.name;
    EXPECT_FALSE(cost_of(entry.name).words.empty()) << entry.name;
  }
}

TEST(Catalog, RefusesAParameterThatNobodyReads) {
  EXPECT_REFUSAL(make_compressor(Spec::parse("topk:k=3"), Layout::flat(1)), ConfigError,
                 "topk has no parameter k; it has none at all.");
}

}  // namespace
}  // namespace topknot
