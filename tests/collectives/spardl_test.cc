// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "trials.h"

namespace topknot::testing {
namespace {

struct Formation {
  int ranks;
  std::string parameters;
};
const std::vector<Formation> kTeams = {
    {2, "teams=2"},        {4, "teams=2"}, {4, "teams=2,sag=b"}, {4, "teams=4"},
    {6, "teams=2"},        {6, "teams=3"}, {6, "teams=6"},       {8, "teams=4"},
    {8, "teams=8,sag=b"},  {9, "teams=3"}, {10, "teams=5"},      {16, "teams=4"},
    {16, "teams=2,sag=b"},
};

TEST(SparDL, KeepsTheLawOnManyRanks) {
  for (const int ranks : {16, 33})
    for (const char* values : {"f32", "bf16", "i8"})
      hold_to_the_law(std::string("spardl:values=") + values, ranks);
}

TEST(SparDL, KeepsTheLawWithTeams) {
  for (const auto& [ranks, parameters] : kTeams)
    for (const char* values : {"f32", "bf16", "i8"})
      hold_to_the_law("spardl:" + parameters + ",values=" + values, ranks);
}

TEST(SparDL, KeepsWhatTwoBitsTakeOff) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33})
    hold_to_the_law_with_2_bits("spardl:values=i2", ranks);
  for (const auto& [ranks, parameters] : kTeams)
    hold_to_the_law_with_2_bits("spardl:values=i2," + parameters, ranks);
}

TEST(SparDL, AppliesAStepOnAllRanksOrOnNone) {
  hold_nonfinite_steps("spardl:values=i8", 16);
  for (const auto& [ranks, parameters] : kTeams)
    hold_nonfinite_steps("spardl:values=i8," + parameters, ranks);
}

TEST(SparDL, LosesNothingWithARank) {
  for (const int ranks : {2, 3, 4, 5}) hold_a_lost_rank("spardl", ranks);
  for (const auto& [ranks, parameters] : kTeams)
    hold_a_lost_rank("spardl:" + parameters, ranks);
}

// In each block, coordinate j is rank j's alone.
TEST(SparDL, BringsEveryRanksPartToTheOwnerOnce) {
  for (int ranks = 2; ranks <= 39; ++ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    const std::size_t n = p * p;
    run(ranks, [&](Transport& link) {
      const auto traffic = std::make_shared<Traffic>();
      const auto metered = make_metered(link.channel(0), traffic);
      const Layout layout = Layout::flat(n);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse("spardl:coding=plain"), *metered,
                                        *compressor, layout);
      std::vector<float> residual(n);
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        expected[i] = static_cast<float>(i % p + 1);
        if (i % p == static_cast<std::size_t>(link.rank())) residual[i] = expected[i];
      }
      std::vector<float> sum(n);
      made->reduce(residual, {}, n, sum);
      EXPECT_EQ(sum, expected) << ranks << " ranks";
      EXPECT_EQ(residual, std::vector<float>(n)) << ranks << " ranks";
      // P - 1 blocks each way, of P pairs, with a header and a length.
      EXPECT_EQ(traffic->bytes(), 2 * (p - 1) * (8 * p + 32 + 8)) << ranks << " ranks";
    });
  }
}

TEST(SparDL, TakesLogPMessages) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33}) {
    const auto sent = sent_by("spardl", ranks, 1000, 50, Shape::uncorrelated, 1);
    for (const Traffic& traffic : sent[0])
      EXPECT_EQ(traffic.messages(), 2 * log2_up(ranks)) << ranks << " ranks";
  }
}

TEST(SparDL, TakesLogPMessagesWithTeams) {
  for (const auto& [ranks, parameters] : kTeams) {
    const int teams = parameters[6] - '0';
    const auto sent =
        sent_by("spardl:" + parameters, ranks, 1000, 50, Shape::uncorrelated, 1);
    for (const Traffic& traffic : sent[0])
      EXPECT_EQ(traffic.messages(), 2 * log2_up(ranks / teams) + log2_up(teams))
          << ranks << " ranks, " << parameters;
  }
}

/// The bytes of pairs alone, of a rank that sent so many blocks.
std::uint64_t pair_bytes(const Traffic& traffic, std::uint64_t blocks) {
  return traffic.bytes() - (32 + 8) * blocks;
}

TEST(SparDL, StaysWithinItsBoundOnEveryStep) {
  const std::size_t n = 20000;
  const std::size_t k = 1001;
  for (const int ranks : {2, 3, 4, 8, 16}) {
    const auto p = static_cast<std::uint64_t>(ranks);
    const std::uint64_t rounded = (k + p - 1) / p * p;
    for (const Shape shape : kAllShapes)
      for (const auto& step : sent_by("spardl:coding=plain", ranks, n, k, shape, 5)) {
        double all = 0;
        for (const Traffic& traffic : step) {
          const std::uint64_t bytes = pair_bytes(traffic, 2 * (p - 1));
          EXPECT_LE(bytes, 4 * 4 * rounded * (p - 1) / p) << ranks << " ranks";
          all += static_cast<double>(bytes);
        }
        if (shape == Shape::skewed) continue;
        const auto share = static_cast<double>(p - 1) / static_cast<double>(p);
        EXPECT_NEAR(all / ranks, 4 * 4 * static_cast<double>(k) * share,
                    0.02 * 4 * 4 * static_cast<double>(k) * share)
            << ranks << " ranks";
      }
  }
}

TEST(SparDL, StaysWithinItsBoundWithTeams) {
  const std::size_t k = 1001;
  for (const auto& [ranks, parameters] : kTeams) {
    const auto teams = static_cast<std::uint64_t>(parameters[6] - '0');
    const std::uint64_t members = static_cast<std::uint64_t>(ranks) / teams;
    const bool bruck = parameters.ends_with("sag=b") || (teams & (teams - 1)) != 0;
    const std::uint64_t across = bruck ? teams - 1 : log2_up(static_cast<int>(teams));
    const std::uint64_t blocks = 2 * (members - 1) + across;
    const std::uint64_t quota = (k + members - 1) / members;
    for (const Shape shape : kAllShapes)
      for (const auto& step : sent_by("spardl:coding=plain," + parameters, ranks, 20000,
                                      k, shape, /*steps=*/3))
        for (const Traffic& traffic : step)
          // A message of recursive doubling is no packet and has no length.
          EXPECT_LE(traffic.bytes(), blocks * (32 + 8 + 8 * quota))
              << ranks << " ranks, " << parameters;
  }
}

TEST(SparDL, SumsNoMoreThanTheQuotaOfABlock) {
  run(4, [&](Transport& link) {
    const Layout layout = Layout::flat(400);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse("spardl"), link, *compressor, layout);
    std::vector<float> residual = shaped(Shape::skewed, 400, link.rank(), 0);
    std::vector<float> sum(400);
    const Reduced reduced = made->reduce(residual, {}, 39, sum);
    std::map<std::uint32_t, int> in_block;
    for (const std::uint32_t i : reduced.index) ++in_block[i / 100];
    for (const auto& [block, count] : in_block) EXPECT_LE(count, 10) << block;
    EXPECT_EQ(in_block[0], 10);
  });
}

// Rank 1 sends coordinate 0 to its owner, which had not selected it.
TEST(SparDL, AddsItsResidualAtPositionsThatComeIn) {
  run(2, [&](Transport& link) {
    const Layout layout = Layout::flat(100);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const auto made = make_collective(Spec::parse("spardl"), link, *compressor, layout);
    std::vector<float> residual(100, 2.0F);
    residual[0] = link.rank() == 0 ? 1.0F : 9.0F;
    std::vector<float> sum(100);
    const Reduced reduced = made->reduce(residual, {}, 1, sum);
    EXPECT_EQ(sum[0], 10);
    EXPECT_EQ(residual[0], 0);
    EXPECT_TRUE(std::ranges::count(reduced.settled, 0U) == 1);
  });
}

TEST(SparDL, LeavesResidualsAloneWhereTheSumHasNothing) {
  std::vector<std::string> specs = {"spardl", "spardl:values=bf16", "spardl:values=i8",
                                    "spardl:teams=2", "spardl:teams=3,values=i8"};
  for (const std::string& spec : specs)
    run(6, [&](Transport& link) {
      const std::size_t n = 500;
      const Layout layout = Layout::flat(n);
      const auto compressor = make_compressor(Spec::parse("topk"), layout);
      const auto made = make_collective(Spec::parse(spec), link, *compressor, layout);
      std::vector<float> residual = shaped(Shape::correlated, n, link.rank(), 0);
      const std::vector<float> before = residual;
      std::vector<float> sum(n);
      const Reduced reduced = made->reduce(residual, {}, 40, sum);
      std::vector<bool> in_sum(n);
      for (const std::uint32_t i : reduced.index) in_sum[i] = true;
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_TRUE(in_sum[i] || residual[i] == before[i])
            << spec << ", coordinate " << i;
      for (const std::uint32_t i : reduced.settled) EXPECT_TRUE(in_sum[i]) << spec;
    });
}

// ---- teams

std::string refusal(const std::string& spec, int ranks) {
  std::string said;
  const auto links = make_inproc(ranks);
  const Layout layout = Layout::flat(10);
  const auto compressor = make_compressor(Spec::parse("topk"), layout);
  try {
    (void)make_collective(Spec::parse(spec), *links[0], *compressor, layout);
  } catch (const ConfigError& error) {
    said = error.what();
  }
  return said;
}

TEST(SparDL, RefusesTeamsThatCannotBe) {
  EXPECT_NE(refusal("spardl:teams=4", 6).find("allowed are 1, 2, 3, 6."),
            std::string::npos);
  EXPECT_NE(refusal("spardl:teams=3,sag=r", 6).find("sag=b"), std::string::npos);
  EXPECT_EQ(refusal("spardl:teams=2,sag=r", 6), "");
  EXPECT_EQ(refusal("spardl:teams=2", 1), "");
}

/// Saves fields by name, or gives them back.
class Notebook final : public StateVisitor {
 public:
  explicit Notebook(bool load) : load_(load) {}
  void read_from(const Notebook& other) { numbers_ = other.numbers_; }

  void field(std::string_view, float&) override {}
  void field(std::string_view, double&) override {}
  void field(std::string_view name, std::int64_t& value) override { visit(name, value); }
  void field(std::string_view name, std::uint64_t& value) override { visit(name, value); }
  void field(std::string_view, std::vector<std::uint64_t>&) override {}
  void coordinates(std::string_view, std::span<float>) override {}

 private:
  template <typename Number>
  void visit(std::string_view name, Number& value) {
    if (load_) {
      value = static_cast<Number>(numbers_.at(std::string(name)));
    } else {
      numbers_[std::string(name)] = static_cast<std::int64_t>(value);
    }
  }
  bool load_;
  std::map<std::string, std::int64_t> numbers_;
};

/// Bytes that rank 0 sends, step by step; before step `restart` the collective is made
/// anew, with the state of the old one if `resume`.
std::vector<std::uint64_t> bytes_given(int steps, int restart, bool resume) {
  std::vector<std::uint64_t> bytes;
  run(3, [&](Transport& link) {
    const std::size_t n = 6000;
    const auto traffic = std::make_shared<Traffic>();
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor(Spec::parse("topk"), layout);
    const Spec spec = Spec::parse("spardl:teams=3,coding=plain");
    auto metered = make_metered(link.channel(0), traffic);
    auto made = make_collective(spec, *metered, *compressor, layout);
    std::vector<float> residual(n);
    for (int step = 0; step < steps; ++step) {
      if (step == restart) {
        Notebook saved(/*load=*/false);
        made->visit_state(saved);
        Notebook loaded(/*load=*/true);
        loaded.read_from(saved);
        made.reset();
        metered = make_metered(link.channel(1), traffic);
        made = make_collective(spec, *metered, *compressor, layout);
        if (resume) made->visit_state(loaded);
      }
      std::vector<float> grad = shaped(Shape::uncorrelated, n, link.rank(), step);
      *traffic = {};
      made->reduce(residual, grad, 600, grad);
      if (link.rank() == 0) bytes.push_back(traffic->bytes());
    }
  });
  return bytes;
}

TEST(SparDL, LearnsHowMuchToGiveToOtherTeams) {
  const std::vector<std::uint64_t> bytes = bytes_given(40, -1, false);
  const std::uint64_t least =
      2 * (32 + 8 + 8 * 200);  // a third of the quota, to two teams
  EXPECT_EQ(bytes.front(), 2 * (32 + 8 + 8 * 600));
  EXPECT_GE(bytes.back(), least);
  EXPECT_LE(bytes.back(), least * 5 / 4);  // three selections that hardly overlap
}

TEST(SparDL, RemembersHowMuchToGive) {
  const auto straight = bytes_given(12, -1, false);
  EXPECT_EQ(bytes_given(12, 6, /*resume=*/true), straight);
  EXPECT_NE(bytes_given(12, 6, /*resume=*/false), straight);
}

}  // namespace
}  // namespace topknot::testing
