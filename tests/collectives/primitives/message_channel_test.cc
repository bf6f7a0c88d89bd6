// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/message_channel.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "copy_of.h"
#include "ranks.h"
#include "refusal.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::testing {
namespace {

/// What rank 0 and rank 1 of two throw when each reduces in its own way.
template <typename First, typename Second>
std::vector<std::string> quarrel(First first, Second second) {
  std::vector<std::string> sentences(2);
  const auto errors = run_to_the_end(
      2, [&](Transport& link) { link.rank() == 0 ? first(link) : second(link); },
      {.timeout = 5});
  for (std::size_t r = 0; r < 2; ++r) {
    try {
      if (errors[r]) std::rethrow_exception(errors[r]);
    } catch (const LinkError& error) {
      sentences[r] = error.what();
    }
  }
  return sentences;
}

auto reduces(std::string collective, std::size_t n, std::size_t k, int steps = 1) {
  return [=](Transport& link) {
    const Layout layout = Layout::flat(n);
    const auto compressor = make_compressor({"topk", {}}, layout);
    const auto made = make_collective(Spec::parse(collective), link, *compressor, layout);
    std::vector<float> residual(n);
    std::vector<float> sum(n);
    const std::vector<float> grad(n, 1.0F);
    for (int step = 0; step < steps; ++step)
      made->reduce(residual, copy_of(grad), k, sum);
  };
}

bool has(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

TEST(MessageChannel, FindsRanksThatWantAnotherK) {
  const auto said = quarrel(reduces("topka", 100, 10), reduces("topka", 100, 11));
  EXPECT_TRUE(has(said[0], "k is 10 on rank 0, 11")) << said[0];
  EXPECT_TRUE(has(said[1], "k is 11 on rank 1, 10")) << said[1];
}

TEST(MessageChannel, FindsRanksThatHaveAnotherVector) {
  const auto said = quarrel(reduces("topka", 100, 10), reduces("topka", 101, 10));
  EXPECT_TRUE(has(said[0], "n is 100 on rank 0, 101")) << said[0];
}

TEST(MessageChannel, FindsRanksWithOtherParameters) {
  const auto said =
      quarrel(reduces("topka", 100, 10), reduces("topka:coding=plain", 100, 10));
  EXPECT_TRUE(has(said[0], "configuration")) << said[0];
}

TEST(MessageChannel, FindsRanksWithAnotherCollective) {
  const auto said = quarrel(reduces("topka", 100, 10), reduces("dense", 100, 10));
  EXPECT_FALSE(said[0].empty());
  EXPECT_FALSE(said[1].empty());
}

TEST(MessageChannel, NamesThePhaseTheStepAndTheRankThatLeft) {
  const auto said = quarrel(reduces("topka", 100, 10, 2), reduces("topka", 100, 10, 1));
  EXPECT_TRUE(
      has(said[0], "rank 1 has left the job (topka, step 2, phase share, at rank 0)"))
      << said[0];
}

TEST(MessageChannel, LosesNothingWhenTheExchangeFails) {
  std::vector<float> residual(100);
  const auto errors = run_to_the_end(2, [&](Transport& link) {
    if (link.rank() == 1) return;
    const Layout layout = Layout::flat(100);
    const auto compressor = make_compressor({"topk", {}}, layout);
    const auto made = make_collective({"topka", {}}, link, *compressor, layout);
    std::vector<float> sum(100);
    residual.assign(100, 2.0F);
    made->reduce(residual, copy_of(std::vector<float>(100, 1.0F)), 10, sum);
  });
  EXPECT_TRUE(errors[0]);
  EXPECT_EQ(residual, std::vector<float>(100, 3.0F));
}

TEST(MessageChannel, TellsTheReaderThatAValueIsNonfinite) {
  run(2, [](Transport& link) {
    Params params;
    collective::MessageChannel channel(link, "test", params);
    for (const float bad : {std::numeric_limits<float>::infinity(), 1.0F}) {
      channel.begin(2, 1);
      EXPECT_TRUE(channel.finite());
      const std::vector<float> mine = {2.0F, link.rank() == 0 ? bad : 3.0F};
      channel.report_unless_finite(mine);
      EXPECT_EQ(channel.finite(), link.rank() == 1 || bad == 1);
      const std::uint32_t word[] = {7};
      std::uint32_t read[1];
      collective::Message out;
      collective::Message in;
      const int other = 1 - link.rank();
      channel.code_words(word, other, out);
      channel.start_send(other, out);
      channel.start_receive(other, in, channel.words_limit(1));
      channel.finish_receive(other);
      channel.read_words(in, other, link.rank(), read);
      channel.flush();
      EXPECT_EQ(channel.finite(), bad == 1);
    }
  });
}

TEST(MessageChannel, TellsTheReaderWhateverTheMessageHas) {
  enum class Kind { pairs, dense, positions };
  for (const Kind kind : {Kind::pairs, Kind::dense, Kind::positions})
    run(2, [&](Transport& link) {
      Params params;
      collective::MessageChannel channel(link, "test", params);
      const core::Region all{0, 8};
      Sparse pairs;
      pairs.push_back(5, 2.0F);
      std::vector<float> dense(8);
      std::vector<float> error;
      collective::Message message;
      channel.begin(8, 1);
      if (link.rank() == 0) {
        channel.report_nonfinite();
        if (kind == Kind::pairs) channel.code(pairs, all, 1, message, error);
        if (kind == Kind::dense) channel.code_dense(dense, 1, message, error);
        if (kind == Kind::positions) channel.code_positions(pairs.index, all, 1, message);
        channel.start_send(1, message);
        return channel.flush();
      }
      channel.start_receive(0, message, channel.limit(8, 8));
      channel.finish_receive(0);
      EXPECT_TRUE(channel.finite());
      if (kind == Kind::pairs) channel.read(message, 0, 1, all, 1, pairs);
      if (kind == Kind::dense) channel.read_dense(message, 0, 1, dense, false);
      if (kind == Kind::positions)
        channel.read_positions(message, 0, 1, all, 1, pairs.index);
      EXPECT_FALSE(channel.finite());
    });
}

TEST(MessageChannel, RefusesMoreCoordinatesThanPositionsCanSay) {
  const auto alone = make_inproc(1);
  Params params;
  collective::MessageChannel channel(*alone[0], "test", params);
  channel.begin(0xFFFFFFFF, 1);
  EXPECT_THROW(channel.begin(std::uint64_t{1} << 32, 1), ConfigError);
}

TEST(MessageChannel, RefusesWordsItDoesNotKnow) {
  EXPECT_REFUSAL(run(1, reduces("topka:coding=plian", 10, 1)), ConfigError,
                 "There is no coding=plian; nearest is plain (of auto, plain, delta, "
                 "rice, bitmap, dense).");
  EXPECT_REFUSAL(run(1, reduces("topka:values=f16", 10, 1)), ConfigError,
                 "There is no values=f16; nearest is bf16 (of f32, bf16, i8, i2).");
}

}  // namespace
}  // namespace topknot::testing
