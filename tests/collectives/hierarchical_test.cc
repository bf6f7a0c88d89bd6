// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "collectives/one_step.h"
#include "contract.h"
#include "copy_of.h"
#include "topknot/error.h"
#include "transports/forwarding_transport.h"

namespace topknot::testing {
namespace {

/// How many ranks, and how many of them in a node.
struct Shape {
  int ranks;
  int group;
};
constexpr Shape kShapes[] = {{2, 1}, {2, 2}, {4, 2},  {6, 2}, {6, 3},
                             {8, 4}, {9, 3}, {16, 4}, {33, 3}};

std::string name(const Shape& shape, const std::string& rest) {
  return "hierarchical:group=" + std::to_string(shape.group) + rest;
}

TEST(Hierarchical, KeepsTheLawInNodesOfAnySize) {
  for (const Shape& shape : kShapes)
    run(shape.ranks, [&](Transport& link) {
      int id = 0;
      for (const char* rest : {"", ",coding=plain", ",values=bf16", ",inner=topka",
                               ",inner=dense", ",inner=ssar,values=i8"})
        for (const Data data : {Data::integers, Data::random, Data::one_huge})
          for (const std::size_t n : {0, 1, 4, 500})
            for (const std::size_t k : {std::size_t{1}, n / 20, n}) {
              const Case c{.collective = name(shape, rest),
                           .n = n,
                           .k = k,
                           .data = data,
                           .steps = 2,
                           .in_place = k == 1};
              const auto part = link.channel(id++);
              const auto wrong = violation(c, *part);
              EXPECT_FALSE(wrong) << c.str(shape.ranks) << ": " << wrong.value_or("");
            }
    });
}

TEST(Hierarchical, IsTheInnerCollectiveForNodesOfOneRank) {
  const std::size_t n = 1000;
  const Gradients gradient = [n](int rank, int step) {
    return correlated(n, rank, step);
  };
  for (const std::string inner : {"knot", "topkdsa", "oktopk"}) {
    const auto plain = reduce(4, inner, n, 50, gradient, 3);
    const auto ours =
        reduce(4, "hierarchical:group=1,inner=" + inner, n, 50, gradient, 3);
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(ours[r].sum, plain[r].sum) << inner;
      EXPECT_EQ(ours[r].residual, plain[r].residual) << inner;
      auto listed = plain[r].settled;
      std::ranges::sort(listed);
      auto settled = ours[r].settled;
      std::ranges::sort(settled);
      EXPECT_EQ(settled, listed) << inner;
    }
  }
}

TEST(Hierarchical, GivesTheDenseSumWhenEverythingIsWanted) {
  const std::size_t n = 101;
  for (const Shape& shape : kShapes) {
    std::vector<float> total(n);
    for (int r = 0; r < shape.ranks; ++r) total = added(total, uncorrelated(n, r, 0));
    for (const char* rest : {"", ",inner=dense"}) {
      const auto outcomes =
          reduce(shape.ranks, name(shape, rest), n, n,
                 [n](int rank, int step) { return uncorrelated(n, rank, step); });
      for (const Outcome& one : outcomes) {
        EXPECT_EQ(one.sum, total);
        EXPECT_EQ(one.residual, std::vector<float>(n));
        EXPECT_EQ(one.count, n);
      }
    }
  }
}

// Between nodes a shard is reduced with k / G, from the sum of the node.
TEST(Hierarchical, SelectsFromTheSumOfANode) {
  const auto outcomes = reduce("hierarchical:group=2,inner=topka", 2,
                               {{1, 2, 0, 5}, {2, 2, 4, 0}, {0, 9, 1, 1}, {1, 0, 1, 1}});
  for (const Outcome& one : outcomes)
    EXPECT_EQ(one.sum, (std::vector<float>{0, 4 + 9, 2, 5}));
  // Member 0 has coordinates 0 and 1, member 1 has 2 and 3.
  EXPECT_EQ(outcomes[0].residual, (std::vector<float>{3, 0, 0, 0}));
  EXPECT_EQ(outcomes[1].residual, (std::vector<float>{0, 0, 4, 0}));
  EXPECT_EQ(outcomes[2].residual, (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(outcomes[3].residual, (std::vector<float>{0, 0, 0, 2}));
}

TEST(Hierarchical, SendsDenseInsideANodeAndASelectionBetweenNodes) {
  const std::size_t n = 6400;
  const std::size_t k = 64;
  for (const Shape& shape : {Shape{4, 2}, {8, 2}, {8, 4}, {16, 4}})
    for (const auto gradient : kGradients) {
      const auto outcomes = reduce(
          shape.ranks, name(shape, ",inner=topka,coding=plain"), n, k,
          [&](int rank, int step) { return gradient(n, rank, step); }, 2);
      const auto group = static_cast<std::size_t>(shape.group);
      const auto nodes = static_cast<std::size_t>(shape.ranks) / group;
      for (std::size_t r = 0; r < outcomes.size(); ++r) {
        std::uint64_t inside = 0;
        std::uint64_t between = 0;
        for (std::size_t to = 0; to < outcomes.size(); ++to)
          (to / group == r / group ? inside : between) +=
              words(outcomes[r].traffic, static_cast<int>(to));
        EXPECT_EQ(between, 2 * k / group * (nodes - 1));
        EXPECT_GE(inside, n * (group - 1) / group);
        EXPECT_LE(inside, n * (group - 1) / group + 2 * outcomes[r].count);
      }
    }
}

TEST(Hierarchical, StaysWithinKnotsBoundBetweenNodes) {
  const std::size_t n = 64000;
  const std::size_t k = 6400;
  for (const Shape& shape : {Shape{4, 2}, {8, 2}, {8, 4}, {16, 4}})
    for (const auto gradient : kGradients) {
      const auto outcomes = reduce(
          shape.ranks, name(shape, ",coding=plain"), n, k,
          [&](int rank, int step) { return gradient(n, rank, step); }, 2);
      const auto group = static_cast<std::size_t>(shape.group);
      for (std::size_t r = 0; r < outcomes.size(); ++r) {
        std::uint64_t between = 0;
        for (std::size_t to = 0; to < outcomes.size(); ++to)
          if (to / group != r / group)
            between += words(outcomes[r].traffic, static_cast<int>(to));
        // The counters of the agreement are at most a quarter of k for each round.
        EXPECT_LE(between, (4 * k + k) / group);
      }
    }
}

constexpr std::size_t kSpoilt[] = {0, 7, 39};

/// Runs two steps, of which the first is spoilt by `spoil`; all ranks must undo it,
/// and the second must give the same as if it were the first.
void spoil(const Shape& shape, std::size_t k,
           const std::function<void(int, std::vector<float>&)>& spoiler) {
  const std::size_t n = 40;
  const Case c{.collective = "hierarchical", .n = n};
  const auto start = [&](int rank) { return gradient(c, rank, -1); };
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(shape.ranks));
  run(shape.ranks, [&](Transport& link) {
    const auto compressor = make_compressor({"topk", {}}, Layout::flat(n));
    const auto made =
        make_collective(Spec::parse(name(shape, "")), link, *compressor, Layout::flat(n));
    const std::vector<float> before = start(link.rank());
    std::vector<float> residual = before;
    std::vector<float> grad = gradient(c, link.rank(), 0);
    spoiler(link.rank(), grad);
    EXPECT_FALSE(made->reduce(residual, grad, k, grad).finite);
    EXPECT_EQ(residual, before) << "rank " << link.rank();
    grad = gradient(c, link.rank(), 1);
    EXPECT_TRUE(made->reduce(residual, grad, n, grad).finite);
    sums[static_cast<std::size_t>(link.rank())] = grad;
  });
  std::vector<float> total(n);
  for (int r = 0; r < shape.ranks; ++r)
    total = added(added(total, start(r)), gradient(c, r, 1));
  for (const std::vector<float>& sum : sums) EXPECT_EQ(sum, total);
}

TEST(Hierarchical, AppliesAStepOnAllRanksOrOnNone) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity()};
  for (const Shape& shape : {Shape{4, 2}, {6, 3}, {9, 3}})
    for (int nonfinite = 0; nonfinite < shape.ranks; ++nonfinite)
      for (const std::size_t where : kSpoilt)
        for (const float value : bad)
          spoil(shape, 10, [&](int rank, std::vector<float>& grad) {
            if (rank == nonfinite) grad[where] = value;
          });
}

// Finite in every node, but not between the nodes, and in one column alone.
TEST(Hierarchical, UndoesTheOtherShardsWhenOneOverflows) {
  for (const Shape& shape : {Shape{4, 2}, {6, 2}, {6, 3}, {9, 3}})
    for (const std::size_t where : kSpoilt)
      spoil(shape, 10, [&](int rank, std::vector<float>& grad) {
        if (rank % shape.group == 0) grad[where] = std::numeric_limits<float>::max();
      });
}

TEST(Hierarchical, FindsAnOverflowInsideANode) {
  spoil({4, 2}, 10, [](int rank, std::vector<float>& grad) {
    if (rank < 2) grad[7] = std::numeric_limits<float>::max();
  });
}

// ---- which ranks share a node

/// A channel whose ranks are on the hosts that it is told.
class Hosted final : public ForwardingTransport {
 public:
  Hosted(Transport& link, std::vector<int> hosts)
      : ForwardingTransport(link), hosts_(std::move(hosts)) {}

  int node_of(int rank) const noexcept override {
    return hosts_[static_cast<std::size_t>(rank)];
  }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return channel;
  }

  const std::vector<int> hosts_;
};

/// Whose residuals each rank holds after a step that sends nothing: those of its node. The
/// residual of rank r is 10^r everywhere, so the digits tell whose it is.
std::vector<std::string> members(const std::vector<int>& hosts) {
  const std::size_t n = 60;  // three ranks or two share it evenly
  const auto ranks = static_cast<int>(hosts.size());
  std::vector<std::string> found(hosts.size());
  run(ranks, [&](Transport& link) {
    Hosted hosted(link, hosts);
    const auto compressor = make_compressor({"topk", {}}, Layout::flat(n));
    const auto made =
        make_collective({"hierarchical", {}}, hosted, *compressor, Layout::flat(n));
    std::vector<float> residual(n, static_cast<float>(std::pow(10, link.rank())));
    std::vector<float> sum(n);
    made->reduce(residual, {}, 0, sum);
    const float largest = *std::ranges::max_element(residual);
    found[static_cast<std::size_t>(link.rank())] =
        std::to_string(static_cast<int>(largest));
  });
  return found;
}

TEST(Hierarchical, AsksTheTransportWhoSharesANode) {
  using Residuals = std::vector<std::string>;
  EXPECT_EQ(members({0, 0, 1, 1}), (Residuals{"11", "11", "1100", "1100"}));
  EXPECT_EQ(members({5, 2, 5, 2}), (Residuals{"101", "1010", "101", "1010"}));
  EXPECT_EQ(members({0, 0, 0}), (Residuals{"111", "111", "111"}));
  // Hosts of two and of four: nodes of two.
  EXPECT_EQ(members({0, 0, 1, 1, 1, 1}),
            (Residuals{"11", "11", "1100", "1100", "110000", "110000"}));
  // Hosts of two and of three have no common measure but one.
  EXPECT_EQ(members({0, 0, 1, 1, 1}), (Residuals{"1", "10", "100", "1000", "10000"}));
}

// ---- what can be asked for

std::string refusal(const std::string& collective, int ranks) {
  std::string sentence;
  run(ranks, [&](Transport& link) {
    const auto compressor = make_compressor({"topk", {}}, Layout::flat(10));
    try {
      make_collective(Spec::parse(collective), link, *compressor, Layout::flat(10));
    } catch (const ConfigError& error) {
      if (link.rank() == 0) sentence = error.what();
    }
  });
  return sentence;
}

TEST(Hierarchical, NamesTheGroupsThatWouldFit) {
  EXPECT_EQ(refusal("hierarchical:group=4", 6),
            "hierarchical:group=4 does not divide 6 ranks; these do: 1, 2, 3, 6.");
}

TEST(Hierarchical, TakesAnyGroupWhenAlone) {
  EXPECT_EQ(refusal("hierarchical:group=4", 1), "");
}

TEST(Hierarchical, RefusesAnInnerThatIsNone) {
  EXPECT_NE(refusal("hierarchical:inner=knod", 2).find("nearest is knot"),
            std::string::npos);
  EXPECT_NE(refusal("hierarchical:inner=hierarchical", 2), "");
}

TEST(Hierarchical, HandsTheInnerItsParameters) {
  EXPECT_EQ(refusal("hierarchical:inner=oktopk,tau=3,values=bf16", 2), "");
  EXPECT_NE(refusal("hierarchical:inner=topka,tau=3", 2), "");
  EXPECT_NE(refusal("hierarchical:values=bf17", 2), "");
}

TEST(Hierarchical, NamesALostRankByItsNumberInTheJob) {
  std::vector<int> blamed(4, -1);
  run_to_the_end(
      4,
      [&](Transport& link) {
        if (link.rank() == 3) return;
        const auto compressor = make_compressor({"topk", {}}, Layout::flat(10));
        const auto made = make_collective(Spec::parse("hierarchical:group=2"), link,
                                          *compressor, Layout::flat(10));
        const std::vector<float> grad(10, 1.0F);
        std::vector<float> residual(10, 2.0F);
        std::vector<float> sum(10);
        try {
          made->reduce(residual, copy_of(grad), 1, sum);
        } catch (const LinkError& error) {
          blamed[static_cast<std::size_t>(link.rank())] = error.peer();
          EXPECT_EQ(residual, std::vector<float>(10, 3.0F)) << "nothing counts as sent";
        }
      },
      {.timeout = 5});
  EXPECT_EQ(blamed[1], 3);
  EXPECT_EQ(blamed[2], 3);
}

TEST(Hierarchical, LetsTheInnerKeepItsState) {
  struct Names final : StateVisitor {
    void field(std::string_view, float&) override { ++count; }
    void field(std::string_view, double&) override { ++count; }
    void field(std::string_view, std::int64_t&) override { ++count; }
    void field(std::string_view, std::uint64_t&) override { ++count; }
    void field(std::string_view, std::vector<std::uint64_t>&) override { ++count; }
    void coordinates(std::string_view, std::span<float>) override { ++count; }
    int count = 0;
  };
  const auto alone = make_inproc(1);
  const auto compressor = make_compressor({"topk", {}}, Layout::flat(10));
  for (const CollectiveEntry& entry : collectives()) {
    if (entry.name == "hierarchical") continue;
    const std::string inner(entry.name);
    Names own;
    Names through;
    make_collective({inner, {}}, *alone[0], *compressor, Layout::flat(10))
        ->visit_state(own);
    make_collective(Spec::parse("hierarchical:inner=" + inner), *alone[0], *compressor,
                    Layout::flat(10))
        ->visit_state(through);
    EXPECT_EQ(through.count, own.count) << inner;
  }
}

}  // namespace
}  // namespace topknot::testing
