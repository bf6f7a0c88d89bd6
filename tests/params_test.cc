// SPDX-License-Identifier: Apache-2.0
#include "topknot/params.h"

#include <gtest/gtest.h>

#include "refusal.h"
#include "topknot/error.h"

namespace topknot {
namespace {

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Spec, IsANameWithParameters) {
  Spec spec = Spec::parse("oktopk:tau=64,values=bf16");
  EXPECT_EQ(spec.name, "oktopk");
  EXPECT_EQ(spec.params.integer("tau", 1, 1, 100, ""), 64);
  EXPECT_EQ(spec.params.choice("values", {"f32", "bf16"}, ""), "bf16");
  EXPECT_EQ(spec.str(), "oktopk:tau=64,values=bf16");
  EXPECT_EQ(Spec::parse("dense").str(), "dense");
}

TEST(Spec, RefusesWhatHasNoName) {
  EXPECT_REFUSAL(Spec::parse(""), ConfigError,
                 "A name is missing in \"\"; write it as name or name:key=value.");
  EXPECT_REFUSAL(Spec::parse(":tau=1"), ConfigError,
                 "A name is missing in \":tau=1\"; write it as name or name:key=value.");
}

TEST(Params, RefusesWhatIsNotKeyEqualsValue) {
  EXPECT_REFUSAL(Params::parse("tau"), ConfigError,
                 "Parameters are written key=value,key=value; \"tau\" is not.");
  EXPECT_REFUSAL(Params::parse("=1"), ConfigError,
                 "Parameters are written key=value,key=value; \"=1\" is not.");
  EXPECT_REFUSAL(Params::parse("a=1,,b=2"), ConfigError,
                 "Parameters are written key=value,key=value; \"\" is not.");
  EXPECT_REFUSAL(Params::parse("a=1,a=2"), ConfigError,
                 "The parameter a is given twice.");
}

TEST(Params, GivesTheDefaultWhereNothingIsGiven) {
  Params params;
  EXPECT_EQ(params.integer("tau", 64, 1, 100, "steps"), 64);
  EXPECT_EQ(params.number("lr", 0.5, 0, 1, ""), 0.5);
  EXPECT_TRUE(params.flag("on", true, ""));
  EXPECT_EQ(params.choice("via", {"own", "native"}, ""), "own");
  EXPECT_EQ(params.text("inner", "knot", ""), "knot");
}

TEST(Params, DeclaresWhatIsRead) {
  Params params = Params::parse("tau=7");
  params.integer("tau", 64, 1, 100, "steps between cuts");
  ASSERT_EQ(params.declared().size(), 1U);
  EXPECT_EQ(params.declared()[0].fallback, "64");
  EXPECT_EQ(params.declared()[0].range, "1..100");
  EXPECT_EQ(params.declared()[0].meaning, "steps between cuts");
}

TEST(Params, RefusesValuesOutOfRange) {
  for (const char* bad : {"0", "101", "x", "7x", "", "1e3", "99999999999999999999"}) {
    Params params = Params::parse(std::string("tau=") + bad);
    EXPECT_REFUSAL(params.integer("tau", 64, 1, 100, ""), ConfigError,
                   std::string("tau=") + bad + " is not in 1..100.");
  }
  for (const char* bad : {"nan", "-0.1", "1.1", "inf"}) {
    Params params = Params::parse(std::string("lr=") + bad);
    EXPECT_REFUSAL(params.number("lr", 0.5, 0, 1, ""), ConfigError,
                   std::string("lr=") + bad + " is not in 0..1.");
  }
  Params params = Params::parse("on=yes");
  EXPECT_REFUSAL(params.flag("on", true, ""), ConfigError, "on=yes is neither 0 nor 1.");
}

TEST(Params, SaysTheNearestChoice) {
  const std::string sentence = refusal([] {
    Params params = Params::parse("via=nativ");
    params.choice("via", {"own", "native"}, "");
  });
  EXPECT_EQ(sentence, "There is no via=nativ; nearest is native (of own, native).");
}

TEST(Params, SaysTheNearestNameOfAnUnknownParameter) {
  Params params = Params::parse("tua=3");
  params.integer("tau", 64, 1, 100, "");
  params.integer("cap", 4, 1, 100, "");
  EXPECT_EQ(refusal([&] { params.refuse_unknown("oktopk"); }),
            "oktopk has no parameter tua; nearest is tau (of tau, cap).");
}

}  // namespace
}  // namespace topknot
