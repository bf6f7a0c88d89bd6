// SPDX-License-Identifier: Apache-2.0
#include "core/wire/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <numeric>
#include <string>

#include "core/wire/reference.h"

namespace topknot::core {
namespace {

constexpr std::uint64_t kWhole = 0xFFFFFFFF;  // the largest region

std::string title(Region region, std::size_t count, Format format) {
  return std::to_string(count) + " pairs of [" + std::to_string(region.begin) + ", " +
         std::to_string(region.end) + ") as " + std::string(name(format.coding)) + " " +
         std::string(name(format.values));
}

Sparse read(const Message& message, Region region) {
  Sparse pairs;
  Decoded said;
  const auto fault = decode(message, kStamp, region, region.size(), pairs, said);
  EXPECT_FALSE(fault) << fault->str();
  EXPECT_EQ(said.count, pairs.size());
  return pairs;
}

std::vector<Region> awkward_regions() {
  std::vector<Region> regions;
  for (const std::uint64_t size :
       {0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 257, 4096}) {
    regions.push_back({0, size});
    regions.push_back({1000, 1000 + size});
    regions.push_back({kWhole - size, kWhole});
  }
  return regions;
}

std::set<std::uint64_t> awkward_counts(std::uint64_t size) {
  std::set<std::uint64_t> counts;
  for (const std::uint64_t count :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{127},
        std::uint64_t{128}, std::uint64_t{129}, size / 100, size / 2, size - 1, size}) {
    if (count <= size) counts.insert(count);
  }
  return counts;
}

// ---- pairs

void expect_round_trip(const Sparse& pairs, Region region, Format format) {
  SCOPED_TRACE(title(region, pairs.size(), format));
  Message message(20'000, std::byte{0xEE});  // of an earlier step
  std::vector<float> error(pairs.size(), -1);
  encode(kStamp, pairs, region, format, false, message, error);
  EXPECT_LE(message.size(), message_bound(pairs.size(), region.size(), format));
  const Sparse got = read(message, region);
  ASSERT_EQ(got.index, pairs.index);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(error[i], pairs.value[i] - got.value[i]);
    if (format.values != Values::i2) {
      ASSERT_EQ(got.value[i] + error[i], pairs.value[i]);
    }
  }
  if (format.values == Values::f32) {
    EXPECT_EQ(got, pairs);
  }
}

TEST(Wire, GivesBackEveryPairInEveryFormat) {
  std::uint64_t seed = 1;
  for (const Region region : awkward_regions()) {
    for (const std::uint64_t count : awkward_counts(region.size())) {
      const Sparse pairs = random_pairs(region, count, seed++);
      for (const Coding coding : kAllCodings) {
        for (const Values values : kAllValues) {
          expect_round_trip(pairs, region, {coding, values});
        }
      }
    }
  }
}

// Every parameter of a block: those whose numbers are packed by eights, and those beyond.
TEST(Wire, GivesBackGapsOfEveryWidth) {
  std::uint64_t seed = 1;
  for (int width = 0; width <= 12; ++width) {
    const std::uint64_t mean = std::uint64_t{1} << width;
    for (const std::uint64_t count : {1, 7, 8, 9, 127, 128, 129, 256, 300, 1000}) {
      const Region region{50, 50 + count * (mean + 1)};
      const Sparse pairs = random_pairs(region, count, seed++);
      for (const Coding coding : {Coding::rice, Coding::delta})
        for (const Values values : {Values::f32, Values::i2, Values::none})
          EXPECT_EQ(read(message_of(pairs, region, {coding, values}), region).index,
                    pairs.index)
              << title(region, count, {coding, values});
    }
  }
}

// With no values behind them, positions that follow one another end at the message's end.
TEST(Wire, GivesBackPositionsAlone) {
  std::uint64_t seed = 1;
  for (const Region region : awkward_regions())
    for (const std::uint64_t count : awkward_counts(region.size()))
      for (const Coding coding : kAllCodings) {
        const Sparse pairs = random_pairs(region, count, seed++);
        const Format format = {coding, Values::none};
        SCOPED_TRACE(title(region, count, format));
        Message message;
        encode(kStamp, {pairs.index, {}}, region, format, false, message, {});
        EXPECT_LE(message.size(), message_bound(count, region.size(), format));
        EXPECT_EQ(read(message, region).index, pairs.index);
      }
}

TEST(Wire, GivesBackFewPairsOfTheLargestRegion) {
  const Region region{0, kWhole};
  for (const std::uint64_t count : {1, 2, 5, 127, 128, 129, 1000}) {
    Sparse pairs = random_pairs(region, count, count);
    for (const Coding coding :
         {Coding::plain, Coding::delta, Coding::rice, Coding::automatic}) {
      expect_round_trip(pairs, region, {coding, Values::f32});
      expect_round_trip(pairs, region, {coding, Values::i2});
    }
    std::iota(pairs.index.begin(), pairs.index.end(), 0);  // all at the front
    pairs.index.back() = kWhole - 1;                       // but one
    for (const Coding coding : {Coding::delta, Coding::rice, Coding::automatic}) {
      expect_round_trip(pairs, region, {coding, Values::bf16});
    }
  }
}

TEST(Wire, GivesBackPairsThatEndLongBeforeTheRegion) {
  for (const std::uint64_t rest : {1, 7, 8, 63, 64, 65, 1000}) {
    const Sparse pairs = random_pairs({20, 220}, 50, rest);
    for (const Coding coding : kAllCodings) {
      expect_round_trip(pairs, {20, 220 + rest}, {coding, Values::f32});
    }
  }
}

RC_GTEST_PROP(Wire, GivesBackWhateverPairsThereAre, ()) {
  const auto begin = *rc::gen::inRange<std::uint64_t>(0, 1U << 31);
  const auto gaps = *rc::gen::container<std::vector<std::uint32_t>>(
      rc::gen::map(rc::gen::arbitrary<std::uint32_t>(),
                   [](std::uint32_t x) { return (x >> 12) >> (x % 21); }));
  const auto slack = *rc::gen::inRange<std::uint64_t>(0, 1000);
  const auto coding = *rc::gen::elementOf(
      std::vector<Coding>(std::begin(kAllCodings), std::end(kAllCodings)));
  const auto values = *rc::gen::elementOf(
      std::vector<Values>(std::begin(kAllValues), std::end(kAllValues)));
  Sparse pairs;
  std::uint64_t next = begin;
  for (const std::uint32_t gap : gaps) {
    pairs.push_back(static_cast<std::uint32_t>(next + gap), static_cast<float>(gap));
    next += gap + std::uint64_t{1};
  }
  const Region region{begin, next + slack};
  const Message message = message_of(pairs, region, {coding, values});
  RC_ASSERT(message.size() <=
            message_bound(pairs.size(), region.size(), {coding, values}));
  Sparse got;
  Decoded said;
  RC_ASSERT(!decode(message, kStamp, region, pairs.size(), got, said));
  RC_ASSERT(got.index == pairs.index);
  RC_ASSERT(values != Values::f32 || got.value == pairs.value);
  RC_ASSERT(SlowReader(message, region, pairs.size()).read() == got);
}

TEST(Wire, IsReadAlikeByTheSlowReader) {
  std::uint64_t seed = 100;
  for (const Region region : awkward_regions()) {
    for (const std::uint64_t count : awkward_counts(region.size())) {
      const Sparse pairs = random_pairs(region, count, seed++);
      for (const Coding coding : kAllCodings) {
        for (const Values values : kAllValues) {
          const Message message = message_of(pairs, region, {coding, values});
          EXPECT_EQ(SlowReader(message, region, count).read(), read(message, region))
              << title(region, count, {coding, values});
        }
      }
    }
  }
}

TEST(Wire, LiesAsDrawn) {
  const Sparse pairs = {{103, 110, 111}, {1, -2, 0.5F}};
  const Region region{100, 116};
  const auto payload = [&](Coding coding, Values values) {
    const Message message = message_of(pairs, region, {coding, values});
    std::string hex;
    for (std::size_t i = kHeaderBytes; i < message.size(); ++i) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      hex += kDigits[std::to_integer<std::size_t>(message[i] >> 4)];
      hex += kDigits[std::to_integer<std::size_t>(message[i] & std::byte{15})];
    }
    return hex;
  };
  const std::string bf16 = "803F00C0003F";
  EXPECT_EQ(payload(Coding::plain, Values::bf16), "030000000A0000000B000000" + bf16);
  EXPECT_EQ(payload(Coding::delta, Values::bf16), "033300" + bf16);
  EXPECT_EQ(payload(Coding::rice, Values::bf16),
            "01000000"
            "01"
            "01"
            "62" +
                bf16);
  EXPECT_EQ(payload(Coding::bitmap, Values::bf16), "080C" + bf16);
  EXPECT_EQ(payload(Coding::bitmap, Values::f32), "080C0000803F000000C00000003F");
  // 2 is 64 steps of 2^-5, and 1.5 = 3 * 0.5 is as near to 2 as can be.
  EXPECT_EQ(payload(Coding::bitmap, Values::i8), "080CFB20C010");
  EXPECT_EQ(payload(Coding::bitmap, Values::i2), "080CFF0D");

  const Message message = message_of(pairs, region, {Coding::delta, Values::i8}, true);
  constexpr std::array<unsigned, kHeaderBytes> kHeader = {
      'T',  'K',  'N',  'T',  2,    2,    3,    0x11, 0, 0, 0, 0, 77, 0, 0, 0,
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 5, 0, 6, 0, 3,  0, 0, 0};
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    if (i >= 8 && i < 12) continue;  // the checksum
    EXPECT_EQ(std::to_integer<unsigned>(message[i]), kHeader[i]) << "byte " << i;
  }
}

TEST(Wire, SendsAHeaderAloneForNoPairs) {
  for (const Coding coding : kAllCodings) {
    for (const Values values : kAllValues) {
      for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{9}, kWhole}) {
        EXPECT_EQ(message_of({}, {0, size}, {coding, values}).size(), kHeaderBytes);
        EXPECT_EQ(message_bound(0, size, {coding, values}), kHeaderBytes);
      }
    }
  }
}

TEST(Wire, SendsAsDenseOnlyWhatIsWhole) {
  const Region region{0, 1000};
  for (const std::uint64_t count : {999, 1000}) {
    const Sparse pairs = random_pairs(region, count, 1);
    const Message dense = message_of(pairs, region, {Coding::dense, Values::f32});
    EXPECT_EQ(dense.size(), kHeaderBytes + (count == 1000 ? 4000 : 125 + 4 * 999));
  }
  Sparse zeros = random_pairs(region, 1000, 1);
  std::ranges::fill(zeros.value, 0.0F);
  EXPECT_EQ(read(message_of(zeros, region, {Coding::dense, Values::f32}), region), zeros);
}

TEST(Wire, CarriesWhetherTheSenderIsNonfinite) {
  for (const bool nonfinite : {false, true}) {
    Sparse pairs;
    Decoded said{99, !nonfinite};
    const Message message = message_of(random_pairs({0, 9}, 4, 1), {0, 9}, {}, nonfinite);
    ASSERT_FALSE(decode(message, kStamp, {0, 9}, 4, pairs, said));
    EXPECT_EQ(said.nonfinite, nonfinite);
    EXPECT_EQ(said.count, 4U);
  }
}

TEST(Wire, NamesEveryFormat) {
  std::set<std::string_view> names;
  for (const Coding coding : kAllCodings) names.insert(name(coding));
  for (const Values values : kAllValues) names.insert(name(values));
  EXPECT_EQ(names,
            (std::set<std::string_view>{"plain", "delta", "rice", "bitmap", "dense",
                                        "auto", "f32", "bf16", "i8", "i2"}));
}

// ---- sizes

// Positions of a few shapes that suit one coding and are hard on another.
std::vector<Sparse> shapes(std::uint64_t size) {
  std::vector<Sparse> all;
  const auto add = [&](auto&& wanted) {
    Sparse pairs;
    for (std::uint64_t p = 0; p < size; ++p) {
      if (wanted(p)) pairs.push_back(static_cast<std::uint32_t>(p), 1);
    }
    all.push_back(std::move(pairs));
  };
  for (const unsigned every : {1, 2, 3, 7, 8, 100, 128, 1000}) {
    add([=](std::uint64_t p) { return p % every == every - 1; });
    add([=](std::uint64_t p) { return p % every != 0; });
    add([=](std::uint64_t p) { return random_bits(every, p) % every == 0; });
    add([=](std::uint64_t p) { return random_bits(every, p / 200) % every == 0; });
  }
  add([=](std::uint64_t p) { return p < 127 || p == size - 1; });
  add([=](std::uint64_t p) { return p % (size / 20 + 1) < 127; });
  add([=](std::uint64_t p) { return p < size / 2 ? p % 10 == 0 : p % 1000 == 0; });
  return all;
}

TEST(Wire, AutomaticIsNeverLargerThanAnyCoding) {
  for (const std::uint64_t size : {1, 5, 127, 1000, 40000}) {
    for (const Sparse& pairs : shapes(size)) {
      for (const Values values : kAllValues) {
        const std::size_t best =
            message_of(pairs, {0, size}, {Coding::automatic, values}).size();
        for (const Coding coding : kAllCodings) {
          EXPECT_LE(best, message_of(pairs, {0, size}, {coding, values}).size())
              << title({0, size}, pairs.size(), {coding, values});
        }
      }
    }
  }
}

TEST(Wire, TakesEveryCodingWhereItIsSmallest) {
  const auto coding_of = [](const Sparse& pairs, Region region) {
    return std::to_integer<unsigned>(message_of(pairs, region, {})[7]);
  };
  const Region region{0, 10000};
  EXPECT_EQ(coding_of(random_pairs(region, 100, 1), region), unsigned(Coding::rice));
  EXPECT_EQ(coding_of(random_pairs(region, 5000, 1), region), unsigned(Coding::bitmap));
  EXPECT_EQ(coding_of(random_pairs(region, 10000, 1), region), unsigned(Coding::dense));
  EXPECT_EQ(coding_of(random_pairs(region, 1, 1), region), unsigned(Coding::delta));
  EXPECT_EQ(coding_of({{0xFFFFFFFE}, {1}}, {0, kWhole}), unsigned(Coding::plain));
}

TEST(Wire, IsNeverLongerThanTheBoundForAsManyPairsOrMore) {
  for (const std::uint64_t size : {1, 2, 5, 127, 1000, 40000}) {
    for (const Sparse& pairs : shapes(size)) {
      for (const Coding coding : kAllCodings) {
        for (const Values values : kAllValues) {
          const Format format{coding, values};
          const std::size_t length = message_of(pairs, {0, size}, format).size();
          for (const std::uint64_t most : {pairs.size(), pairs.size() + 1, 2 * size}) {
            EXPECT_LE(length, message_bound(most, size, format))
                << title({0, size}, pairs.size(), format) << " of at most " << most;
          }
        }
      }
    }
  }
}

// Every set of positions of a small region, so every way that gaps can lie.
TEST(Wire, BoundHoldsAndPairsReturnForEverySetOfPositions) {
  constexpr std::uint64_t kSize = 12;
  for (std::uint32_t set = 0; set < (1U << kSize); ++set) {
    Sparse pairs;
    for (std::uint32_t p = 0; p < kSize; ++p) {
      if ((set >> p & 1) != 0) pairs.push_back(p, 1);
    }
    for (const Coding coding : kAllCodings) {
      const Message message = message_of(pairs, {0, kSize}, {coding, Values::f32});
      ASSERT_LE(message.size(),
                message_bound(pairs.size(), kSize, {coding, Values::f32}));
      ASSERT_EQ(read(message, {0, kSize}), pairs) << name(coding);
    }
  }
}

TEST(Wire, BoundIsCloseForTheLargestRegion) {
  const std::uint64_t k = 1 << 25;
  EXPECT_LT(message_bound(k, kWhole, {}), k * 13);  // 8 bits of 1 / 128, and f32
  EXPECT_GE(message_bound(kWhole, kWhole, {}), 4 * kWhole);
  EXPECT_GE(message_bound(~std::uint64_t{0}, kWhole, {Coding::plain, Values::f32}),
            8 * kWhole);
}

double bits_per_pair(const Sparse& pairs, std::uint64_t size, Format format) {
  return 8.0 * static_cast<double>(message_of(pairs, {0, size}, format).size()) /
         static_cast<double>(pairs.size());
}

TEST(Wire, TakesFewBitsPerPairAtOnePercent) {
  constexpr std::uint64_t kSize = 1 << 20;
  const Sparse pairs = random_pairs({0, kSize}, kSize / 100, 1);
  EXPECT_LE(bits_per_pair(pairs, kSize, {Coding::automatic, Values::f32}), 40.25);
  EXPECT_LE(bits_per_pair(pairs, kSize, {Coding::automatic, Values::bf16}), 24.25);
}

// Half of the pairs at one in 10 and half at one in 1000: 4.7 and 11.4 bits of entropy. A
// single parameter would take about 11 bits for a position.
TEST(Wire, FollowsTheDensityFromBlockToBlock) {
  constexpr std::uint64_t kSize = 1 << 20;
  constexpr std::uint64_t kThick = kSize / 101;
  Sparse pairs = random_pairs({0, kThick}, kThick / 10, 1);
  pairs.append(random_pairs({kThick, kSize}, kThick / 10, 2));
  EXPECT_LE(bits_per_pair(pairs, kSize, {Coding::rice, Values::f32}), 32 + 8.6);
}

TEST(Wire, SendsPositionsAlone) {
  const Sparse pairs = {{3, 7, 4000}, {1, 2, 3}};
  const Region region{0, 5000};
  for (const Coding coding :
       {Coding::plain, Coding::delta, Coding::rice, Coding::bitmap, Coding::automatic}) {
    std::vector<std::byte> message;
    encode(Stamp{}, {pairs.index, {}}, region, {coding, Values::none}, false, message,
           {});
    Sparse back;
    Decoded said;
    ASSERT_FALSE(decode(message, Stamp{}, region, 3, back, said));
    EXPECT_EQ(back.index, pairs.index);
    EXPECT_EQ(back.value, std::vector<float>(3));
    EXPECT_LE(message.size(), message_bound(3, region.size(), {coding, Values::none}));
  }
}

TEST(Wire, TellsANonfiniteSenderWithoutReadingOn) {
  for (const bool nonfinite : {false, true}) {
    std::vector<std::byte> message;
    encode(Stamp{}, Sparse{}, {0, 10}, {}, nonfinite, message, {});
    EXPECT_EQ(says_nonfinite(message), nonfinite);
    message.pop_back();
    EXPECT_FALSE(says_nonfinite(message));
  }
}

}  // namespace
}  // namespace topknot::core
