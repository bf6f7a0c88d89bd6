// SPDX-License-Identifier: Apache-2.0
//
// What the decoder makes of messages that were cut, changed or made up: a fault, or pairs
// that are in order and in range, and nothing else.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "core/hash.h"
#include "core/wire/reference.h"

namespace topknot::core {
namespace {

constexpr std::size_t kChecksumAt = 8;
constexpr std::size_t kCountAt = 28;
constexpr std::uint64_t kWhole = 0xFFFFFFFF;

template <typename T>
void put(Message& message, std::size_t at, T x) {
  std::memcpy(message.data() + at, &x, sizeof x);
}

// In memory of exactly its length, so that a sanitizer sees the first byte beyond.
std::optional<Fault> fault_of(const Message& message, Region region, std::uint64_t most,
                              Sparse& pairs) {
  const Message exact(message.begin(), message.end());
  Decoded said;
  return decode(exact, kStamp, region, most, pairs, said);
}

std::string field_of(const Message& message, Region region, std::uint64_t most) {
  Sparse pairs = {{1, 2}, {3, 4}};
  const auto fault = fault_of(message, region, most, pairs);
  if (!fault) return "none";
  EXPECT_TRUE(pairs.index.empty());
  EXPECT_TRUE(pairs.value.empty());
  return std::string(fault->field);
}

bool same_bits(const Sparse& a, const Sparse& b) {
  return a.index == b.index && std::ranges::equal(a.value, b.value, [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

// The decoder and the slow reader agree on any message. Returns whether it was valid.
bool expect_total(const Message& message, Region region, std::uint64_t most) {
  Sparse pairs;
  const auto fault = fault_of(message, region, most, pairs);
  const auto slow = SlowReader(message, region, most).read();
  EXPECT_EQ(slow.has_value(), !fault.has_value()) << (fault ? fault->str() : "valid");
  if (fault) {
    EXPECT_TRUE(pairs.empty() && pairs.value.empty());
  } else if (slow) {
    EXPECT_TRUE(same_bits(*slow, pairs));
  }
  return !fault;
}

// ---- each fault by name

struct Case {
  std::string what;
  Message message;
  std::string field;
};

constexpr Region kRegion = {1000, 1100};
const Sparse kPairs = {{1003, 1010, 1011, 1090}, {1, -2, 0.5F, 3}};

Message valid(Coding coding, Values values = Values::f32) {
  return message_of(kPairs, kRegion, {coding, values});
}

template <typename T>
Message with(Message message, std::size_t at, T x) {
  put(message, at, x);
  return message;
}

Message cut(Message message, std::size_t length) {
  message.resize(length);
  return message;
}

constexpr std::size_t kPayload = kHeaderBytes;

std::vector<Case> header_cases() {
  const Message plain = valid(Coding::plain);
  return {
      {"nothing at all", {}, "length"},
      {"half a header", cut(plain, 31), "length"},
      {"another protocol", with(plain, 0, std::uint32_t{0x47494640}), "magic"},
      {"an earlier version", with(plain, 4, std::uint8_t{1}), "version"},
      {"a later version", with(plain, 4, std::uint8_t{3}), "version"},
      {"an unknown format of values", with(plain, 5, std::uint8_t{5}), "values"},
      {"another phase", with(plain, 6, std::uint8_t{4}), "phase"},
      {"an unknown coding", with(plain, 7, std::uint8_t{5}), "coding"},
      {"the last coding there is room for", with(plain, 7, std::uint8_t{15}), "coding"},
      {"an unknown flag", with(plain, 7, std::uint8_t{0x20}), "flags"},
      {"the highest flag", with(plain, 7, std::uint8_t{0x90}), "flags"},
      {"the step before", with(plain, 12, kStamp.step - 1), "step"},
      {"another fingerprint", with(plain, 16, kStamp.fingerprint ^ 1), "fingerprint"},
      {"another sender", with(plain, 24, std::uint16_t{6}), "from"},
      {"another receiver", with(plain, 26, std::uint16_t{5}), "to"},
  };
}

std::vector<Case> length_cases() {
  std::vector<Case> cases;
  for (const Coding coding :
       {Coding::plain, Coding::delta, Coding::rice, Coding::bitmap}) {
    const std::string as = std::string(" as ") + std::string(name(coding));
    const Message message = valid(coding);
    const std::size_t length = message.size();
    cases.push_back({"the last byte missing" + as, cut(message, length - 1), "length"});
    cases.push_back({"a trailing byte" + as, cut(message, length + 1), "length"});
    cases.push_back({"no payload" + as, cut(message, kHeaderBytes), "length"});
    cases.push_back({"pairs more than the region has" + as,
                     with(message, kCountAt, std::uint32_t{101}), "count"});
    // 2^30 pairs are 2^33 bytes: 0 in 32 bits.
    cases.push_back({"a count that overflows 32 bits" + as,
                     with(message, kCountAt, std::uint32_t{1U << 30}), "count"});
    cases.push_back({"the largest count" + as,
                     with(message, kCountAt, std::uint32_t{0xFFFFFFFF}), "count"});
    cases.push_back(
        {"one pair too many" + as, with(message, kCountAt, std::uint32_t{5}), "length"});
    cases.push_back(
        {"one pair too few" + as, with(message, kCountAt, std::uint32_t{3}), "length"});
    cases.push_back({"no pairs but a payload" + as,
                     with(message, kCountAt, std::uint32_t{0}), "length"});
  }
  cases.push_back({"dense with a pair missing",
                   with(valid(Coding::plain), 7, std::uint8_t{4}), "count"});
  return cases;
}

std::vector<Case> index_cases() {
  const Message plain = valid(Coding::plain);  // 3 10 11 90
  const Message delta = valid(Coding::delta);  // width 7: 3 6 0 78
  const Message rice = valid(Coding::rice);    // parameter 4
  const Message bitmap = valid(Coding::bitmap);
  const std::size_t at = kPayload;
  return {
      {"the same position twice", with(plain, at + 4, std::uint32_t{3}), "index"},
      {"positions out of order", with(plain, at + 4, std::uint32_t{2}), "index"},
      {"the last out of order", with(plain, at + 12, std::uint32_t{11}), "index"},
      {"a position out of range", with(plain, at + 12, std::uint32_t{100}), "index"},
      {"a negative position", with(plain, at + 12, std::int32_t{-1}), "index"},
      {"a negative first position", with(plain, at, std::int32_t{-1}), "index"},
      {"a width above 32", with(delta, at, std::uint8_t{33}), "width"},
      {"the largest width", with(delta, at, std::uint8_t{255}), "width"},
      {"a gap that leads out", with(delta, at + 3, std::uint8_t{0xFF}), "index"},
      {"bits behind the last gap", with(delta, at + 4, std::uint8_t{0xF9}), "padding"},
      {"a parameter above 31", with(rice, at + 4, std::uint8_t{32}), "width"},
      {"ones of another length", with(rice, at, std::uint32_t{3}), "length"},
      {"ones of the largest length", with(rice, at, std::uint32_t{kWhole}), "length"},
      {"a one too many", with(bitmap, at, std::uint8_t{0x09}), "ones"},
      {"a one too few", with(bitmap, at, std::uint8_t{0x00}), "ones"},
      {"a one behind the region",
       with(with(bitmap, at, std::uint8_t{0x00}), at + 12, std::uint8_t{0x10}), "index"},
  };
}

void expect_each(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    EXPECT_EQ(field_of(each.message, kRegion, 100), each.field) << each.what;
    EXPECT_FALSE(expect_total(each.message, kRegion, 100)) << each.what;
  }
}

// Three pairs as rice, with these bytes for positions. { 1, 1, 0x62 } are 3, 10 and 11.
Message three(unsigned parameter, std::vector<unsigned> remainders,
              std::vector<unsigned> ones) {
  const Sparse pairs = {{1003, 1010, 1011}, {1, -2, 0.5F}};
  const Message message = message_of(pairs, kRegion, {Coding::rice, Values::f32});
  std::vector<unsigned> bytes = {static_cast<unsigned>(ones.size()), 0, 0, 0, parameter};
  bytes.insert(bytes.end(), remainders.begin(), remainders.end());
  bytes.insert(bytes.end(), ones.begin(), ones.end());
  Message made(kPayload + bytes.size() + 12);
  std::copy_n(message.begin(), kPayload, made.begin());
  std::ranges::transform(bytes, made.begin() + kPayload,
                         [](unsigned x) { return static_cast<std::byte>(x); });
  std::copy_n(message.end() - 12, 12, made.end() - 12);
  return made;
}

TEST(WireCorruption, OfTwoStreamsIsFoundInEither) {
  ASSERT_EQ(field_of(three(1, {1}, {0x62}), kRegion, 100), "none");
  expect_each({
      {"a remainder too many", three(1, {1, 0}, {0x62}), "length"},
      {"bits behind the last remainder", three(1, {9}, {0x62}), "padding"},
      {"bits behind the last one", three(1, {1}, {0xE2}), "padding"},
      {"a byte behind the last one", three(1, {1}, {0x62, 0}), "padding"},
      {"a byte with a one behind the last", three(1, {1}, {0x62, 1}), "padding"},
      {"a one too few", three(1, {1}, {0x22}), "ones"},
      {"no ones", three(1, {1}, {0}), "ones"},
      {"no bytes for ones", three(1, {1}, {}), "ones"},
      {"zeros that go on", three(1, {1}, {0x60, 0, 0, 0, 0, 0, 0, 0, 0, 1}), "ones"},
      {"the same gaps with a smaller parameter", three(0, {}, {0x08, 0x0C}), "ones"},
      {"the same gaps with a larger parameter", three(2, {0x0B}, {0x0D}), "parameter"},
      {"gaps that lead out", three(6, {0xFF, 0xFF, 3}, {0x0E}), "index"},
  });
}

std::vector<Case> value_cases() {
  const Message i8 = valid(Coding::bitmap, Values::i8);
  const Message i2 = valid(Coding::bitmap, Values::i2);
  const Message odd =
      message_of({std::span(kPairs.index).first(3), std::span(kPairs.value).first(3)},
                 kRegion, {Coding::bitmap, Values::i2});
  const std::size_t at = kPayload + 13;
  return {
      {"a scale beyond the floats", with(i8, at, std::int8_t{122}), "scale"},
      {"a scale beyond the floats, i2", with(i2, at, std::int8_t{127}), "scale"},
      {"a scale below the floats", with(i8, at, std::int8_t{-128}), "scale"},
      {"a step of -128", with(i8, at + 1, std::int8_t{-128}), "value"},
      {"steps of nothing", with(i8, at, std::int8_t{-127}), "value"},
      {"codes of nothing", with(i2, at, std::int8_t{-127}), "value"},
      {"bits behind the last code", with(odd, at + 1, std::uint8_t{0x40}), "padding"},
  };
}

TEST(WireCorruption, IsFoundInTheHeader) { expect_each(header_cases()); }
TEST(WireCorruption, IsFoundInTheLength) { expect_each(length_cases()); }
TEST(WireCorruption, IsFoundInThePositions) { expect_each(index_cases()); }
TEST(WireCorruption, IsFoundInTheValues) { expect_each(value_cases()); }

// The sender answers for the values themselves: see `nonfinite`.
TEST(WireCorruption, LetsNanAndInfinityPass) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Message message = with(valid(Coding::plain), kPayload + 16, kNan);
  EXPECT_TRUE(expect_total(message, kRegion, 100));
}

TEST(WireCorruption, OfAWidthOrParameterIsFound) {
  for (const Coding coding : {Coding::delta, Coding::rice}) {
    const Region region{0, 1 << 20};
    const Sparse pairs = random_pairs(region, 300, 1);
    const Message message = message_of(pairs, region, {coding, Values::f32});
    const std::size_t at = kPayload + (coding == Coding::rice ? 4 : 0);
    for (std::size_t block = 0; block < 3; ++block) {
      for (unsigned x = 0; x < 256; ++x) {
        Message changed = message;
        changed[at + block] = static_cast<std::byte>(x);
        const std::size_t m = block == 2 ? 44 : 128;
        const auto width = std::to_integer<std::size_t>(message[at + block]);
        if (x == width) continue;
        const std::size_t length = message.size() - (m * width + 7) / 8 + (m * x + 7) / 8;
        EXPECT_FALSE(expect_total(changed, region, 300)) << "width " << x;
        // Of the length that the new width asks for it may hold a vector, by chance.
        changed.resize(length);
        expect_total(changed, region, 300);
      }
    }
  }
}

// ---- the checksum

std::vector<Message> one_of_each_format() {
  std::vector<Message> messages = {message_of({}, kRegion, {})};
  for (const Coding coding : {Coding::plain, Coding::delta, Coding::rice, Coding::bitmap})
    for (const Values values : kAllValues) messages.push_back(valid(coding, values));
  Message dense;
  encode_dense(kStamp, kPairs.value, Values::f32, /*nonfinite=*/true, dense, {});
  messages.push_back(dense);
  return messages;
}

TEST(WireChecksum, FindsNoDamageInWhatIsWhole) {
  for (const Message& message : one_of_each_format()) EXPECT_FALSE(find_damage(message));
}

TEST(WireChecksum, FindsOneTwoAndThreeBitsThatTurned) {
  Random random(7);
  for (const Message& message : one_of_each_format()) {
    const std::size_t bits = 8 * message.size();
    const auto turn = [](Message& changed, std::size_t bit) {
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
    };
    for (std::size_t first = 0; first < bits; ++first) {
      Message changed = message;
      turn(changed, first);
      const auto damage = find_damage(changed);
      ASSERT_TRUE(damage) << "bit " << first;
      EXPECT_EQ(damage->kind, Fault::Kind::garbled);
      EXPECT_EQ(damage->field, first < 32 ? "magic" : "checksum");
      for (const std::size_t more : {1, 2}) {
        for (std::size_t i = 0; i < more; ++i)
          turn(changed, (first + 1 + random.below(bits - 1)) % bits);
        if (changed != message) {
          ASSERT_TRUE(find_damage(changed)) << "bit " << first;
        }
      }
    }
  }
}

TEST(WireChecksum, FindsWhatIsCutOrHasATail) {
  for (const Message& message : one_of_each_format()) {
    for (std::size_t length = 0; length < message.size(); ++length)
      ASSERT_TRUE(find_damage(cut(message, length))) << length;
    ASSERT_TRUE(find_damage(cut(message, message.size() + 1)));
  }
}

// Its checksum is where ours is, so its version is what is told of it, not damage.
TEST(WireChecksum, LeavesOtherVersionsToTheDecoder) {
  Message later = with(valid(Coding::plain), 4, std::uint8_t{3});
  std::uint64_t first = 0;
  std::memcpy(&first, later.data(), sizeof first);
  put(later, 8, static_cast<std::uint32_t>(hash(std::span(later).subspan(12), first)));
  EXPECT_FALSE(find_damage(later));
  EXPECT_EQ(field_of(later, kRegion, 100), "version");
  const Message earlier =
      with(with(valid(Coding::plain), 4, std::uint8_t{1}), 8, std::uint32_t{0});
  EXPECT_FALSE(find_damage(earlier));
  EXPECT_EQ(field_of(earlier, kRegion, 100), "version");
}

// ---- order, limits, kinds

TEST(WireCorruption, IsReportedInTheOrderOfTheChecks) {
  const std::vector<std::string> order = {
      "magic",  "version", "step",  "phase", "from",   "to",   "fingerprint",
      "values", "coding",  "flags", "count", "length", "index"};
  const Message right = valid(Coding::plain);
  Message wrong = with(right, kPayload + 4, std::uint32_t{0});
  wrong.push_back({});
  put(wrong, kCountAt, std::uint32_t{200});
  for (std::size_t at = 0; at < kCountAt; ++at) wrong[at] ^= std::byte{0x2F};
  const auto repair = [&](std::size_t at, std::size_t bytes) {
    std::copy_n(right.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                wrong.begin() + static_cast<std::ptrdiff_t>(at));
  };
  std::vector<std::string> seen;
  const std::vector<std::pair<std::size_t, std::size_t>> fields = {
      {0, 4}, {4, 1}, {12, 4}, {6, 1}, {24, 2}, {26, 2}, {16, 8}, {5, 1}};
  for (const auto& [at, bytes] : fields) {
    seen.push_back(field_of(wrong, kRegion, 100));
    repair(at, bytes);
  }
  seen.push_back(field_of(wrong, kRegion, 100));
  wrong[7] &= std::byte{0xF0};
  seen.push_back(field_of(wrong, kRegion, 100));
  repair(7, 1);
  seen.push_back(field_of(wrong, kRegion, 100));
  repair(kCountAt, 4);
  seen.push_back(field_of(wrong, kRegion, 100));
  wrong.pop_back();
  seen.push_back(field_of(wrong, kRegion, 100));
  repair(kPayload + 4, 4);
  EXPECT_EQ(field_of(wrong, kRegion, 100), "none");
  EXPECT_EQ(seen, order);
}

TEST(WireCorruption, OfVersionAndStampIsAMismatchAndOfTheRestGarbled) {
  const std::set<std::string> stamp = {"version", "step", "phase",
                                       "from",    "to",   "fingerprint"};
  for (const auto& cases :
       {header_cases(), length_cases(), index_cases(), value_cases()}) {
    for (const Case& each : cases) {
      Sparse pairs;
      const auto fault = fault_of(each.message, kRegion, 100, pairs);
      ASSERT_TRUE(fault) << each.what;
      EXPECT_EQ(fault->kind == Fault::Kind::mismatch, stamp.contains(each.field));
    }
  }
}

TEST(WireCorruption, IsToldInASentence) {
  EXPECT_EQ((Fault{Fault::Kind::mismatch, "step", 7, 8}.str()), "step is 7, expected 8");
  EXPECT_EQ((Fault{Fault::Kind::garbled, "count", 9, 8}.str()),
            "count is 9, expected at most 8");
  EXPECT_EQ((Fault{Fault::Kind::garbled, "index", 5, 8}.str()),
            "index is 5, expected at least 8");
}

TEST(WireCorruption, IncludesMorePairsThanTheReceiverAccepts) {
  for (const Coding coding : kAllCodings) {
    EXPECT_EQ(field_of(valid(coding), kRegion, 3), "count") << name(coding);
    EXPECT_EQ(field_of(valid(coding), kRegion, 4), "none") << name(coding);
  }
}

TEST(WireCorruption, MakesTheDecoderTakeNoMemory) {
  for (std::uint8_t coding = 0; coding < 5; ++coding) {
    for (const std::uint32_t count : {0xFFFFFFFFU, 0xFFFFFFFEU, 0x80000000U, 0x10000U}) {
      Message message = with(valid(Coding::plain), 7, coding);
      put(message, kCountAt, count);
      Sparse pairs;
      EXPECT_TRUE(fault_of(message, {0, kWhole}, kWhole, pairs));
      EXPECT_EQ(pairs.index.capacity() + pairs.value.capacity(), 0U);
    }
  }
}

TEST(WireCorruption, LeavesADenseVectorUntouched) {
  const std::vector<float> x = {1, 2, 3, 4, 5};
  for (const Values values : kAllValues) {
    Message message;
    encode_dense(kStamp, x, values, false, message, {});
    const auto expect_fault = [&](const Message& changed, std::size_t n,
                                  std::string_view field) {
      const Message exact(changed.begin(), changed.end());
      for (const bool add : {false, true}) {
        std::vector<float> dense(n, 7);
        Decoded said{9, true};
        const auto fault = decode_dense(exact, kStamp, dense, add, said);
        ASSERT_TRUE(fault) << field;
        EXPECT_EQ(fault->field, field);
        EXPECT_EQ(dense, std::vector<float>(n, 7));
      }
    };
    for (std::size_t length = 0; length < message.size(); ++length) {
      expect_fault(cut(message, length), 5, "length");
    }
    expect_fault(cut(message, message.size() + 1), 5, "length");
    expect_fault(message, 4, "count");
    expect_fault(message, 6, "count");
    expect_fault(message, 0, "count");
    expect_fault(with(message, 7, std::uint8_t{3}), 5, "coding");
    expect_fault(with(message, 12, std::uint32_t{0}), 5, "step");
    if (values == Values::i8) {
      expect_fault(with(message, kPayload + 5, std::int8_t{-128}), 5, "value");
    }
    if (values == Values::i2) {
      expect_fault(with(message, kPayload + 2, std::uint8_t{4}), 5, "padding");
    }
  }
}

// ---- all of them, and many

std::vector<std::pair<Message, Region>> small_messages() {
  std::vector<std::pair<Message, Region>> messages;
  for (const Coding coding : kAllCodings) {
    for (const Values values : kAllValues) {
      messages.emplace_back(valid(coding, values), kRegion);
      const Region region{7, 16};
      messages.emplace_back(
          message_of(random_pairs(region, 9, 1), region, {coding, values}), region);
    }
    const Region region{0, 3000};
    messages.emplace_back(
        message_of(random_pairs(region, 140, 2), region, {coding, Values::i2}), region);
  }
  return messages;
}

TEST(WireCorruption, ByCuttingAtAnyLengthIsFound) {
  for (const auto& [message, region] : small_messages()) {
    ASSERT_TRUE(expect_total(message, region, region.size()));
    for (std::size_t length = 0; length < message.size(); ++length) {
      ASSERT_FALSE(expect_total(cut(message, length), region, region.size())) << length;
    }
  }
}

TEST(WireCorruption, OfAnyOneByteGivesAFaultOrAVector) {
  for (const Coding coding :
       {Coding::plain, Coding::delta, Coding::rice, Coding::bitmap}) {
    for (const Values values : kAllValues) {
      const Message message = valid(coding, values);
      for (std::size_t at = 0; at < message.size(); ++at) {
        for (unsigned x = 1; x < 256; ++x) {
          Message changed = message;
          changed[at] ^= static_cast<std::byte>(x);
          const bool ok = expect_total(changed, kRegion, 100);
          // Of the header's bytes only these two say what may also be said otherwise, and
          // the decoder does not look at the checksum.
          const bool is_checksum = at >= kChecksumAt && at < kChecksumAt + 4;
          ASSERT_TRUE(!ok || at >= kHeaderBytes || at == 5 || at == 7 || is_checksum)
              << at;
        }
        ASSERT_FALSE(::testing::Test::HasFailure()) << "byte " << at;
      }
    }
  }
}

// Every set of `count` positions of a small region.
std::vector<Sparse> every_set(Region region, std::size_t count) {
  std::vector<Sparse> sets;
  for (std::uint32_t mask = 0; mask < (1U << region.size()); ++mask) {
    Sparse set;
    for (std::uint32_t p = 0; p < region.size(); ++p) {
      if ((mask >> p & 1) != 0) {
        set.push_back(static_cast<std::uint32_t>(region.begin) + p, 1);
      }
    }
    if (set.size() == count) sets.push_back(set);
  }
  return sets;
}

// Every two bytes as the end of the positions, behind every front that can stand there.
// Just as many are valid as there are sets of positions that are encoded so: one set, one
// sequence of bytes.
TEST(WireCorruption, EveryShortPayloadIsReadAsTheSlowReaderReadsIt) {
  const Region region{50, 62};
  const auto expect_all = [&](const std::vector<Sparse>& sets, Coding coding,
                              const std::vector<std::uint8_t>& front) {
    Message message = message_of(sets[0], region, {Coding::plain, Values::i2});
    const std::byte values[] = {message.end()[-2], message.end()[-1]};
    message.resize(kPayload + front.size() + 4);
    put(message, 7, coding);
    std::ranges::copy(std::as_bytes(std::span(front)), message.begin() + kPayload);
    std::ranges::copy(values, message.end() - 2);
    std::size_t valid_ones = 0;
    for (std::uint32_t x = 0; x < 0x10000; ++x) {
      put(message, message.size() - 4, static_cast<std::uint16_t>(x));
      valid_ones += expect_total(message, region, 12) ? 1 : 0;
    }
    const auto alike = std::ranges::count_if(sets, [&](const Sparse& set) {
      Message made = message_of(set, region, {coding, Values::i2});
      std::copy_n(message.begin() + kChecksumAt, 4, made.begin() + kChecksumAt);
      return made.size() == message.size() &&
             std::equal(made.begin(), made.end() - 4, message.begin());
    });
    EXPECT_EQ(valid_ones, static_cast<std::size_t>(alike)) << name(coding);
    return valid_ones;
  };
  for (const std::size_t count : {1, 2, 3}) {
    const std::vector<Sparse> sets = every_set(region, count);
    EXPECT_GT(expect_all(sets, Coding::delta, {}), 0U);
    EXPECT_EQ(expect_all(sets, Coding::bitmap, {}), sets.size());
    EXPECT_GT(expect_all(sets, Coding::rice, {1, 0, 0, 0, 1}), 0U);
  }
  EXPECT_GT(expect_all(every_set(region, 4), Coding::rice, {2, 0, 0, 0, 0}), 0U);
  EXPECT_GT(expect_all(every_set(region, 2), Coding::rice, {1, 0, 0, 0, 2}), 0U);
}

// One random change, of the kinds that happen and the kinds that are meant.
void change(Message& message, const std::vector<std::pair<Message, Region>>& others,
            Random& random) {
  const std::size_t at = message.empty() ? 0 : random.below(message.size());
  switch (random.below(7)) {
    case 0:
      if (!message.empty()) message[at] ^= static_cast<std::byte>(1U << random.below(8));
      break;
    case 1:
      if (!message.empty()) message[at] = static_cast<std::byte>(random.bits());
      break;
    case 2:
      message.resize(at);
      break;
    case 3:
      message.resize(message.size() + 1 + random.below(9), std::byte{0});
      break;
    case 4: {  // the end of another
      const Message& other = others[random.below(others.size())].first;
      const std::size_t from = random.below(other.size());
      message.resize(at);
      message.insert(message.end(), other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.end());
      break;
    }
    case 5:
      if (message.size() >= kHeaderBytes) {
        put(message, kCountAt, static_cast<std::uint32_t>(random.below(200)));
      }
      break;
    default:
      if (message.size() >= kHeaderBytes) {
        put(message, 7, static_cast<std::uint8_t>(random.below(5)));
        put(message, 5, static_cast<std::uint8_t>(random.below(4)));
      }
  }
}

TEST(WireCorruption, AMillionTimesGivesAFaultOrAVector) {
  const auto messages = small_messages();
  Random random(2024);
  Sparse pairs;
  Decoded said;
  std::size_t valid_ones = 0;
  for (int trial = 0; trial < 1'000'000; ++trial) {
    const auto& [message, region] = messages[random.below(messages.size())];
    const std::uint64_t most = random.below(region.size() + 1);
    Message changed = message;
    for (std::uint64_t times = random.below(3); times < 3; ++times) {
      change(changed, messages, random);
    }
    changed.shrink_to_fit();
    if (trial % 4 == 0) {
      expect_total(changed, region, most);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "trial " << trial;
    }
    if (decode(changed, kStamp, region, most, pairs, said)) {
      ASSERT_TRUE(pairs.index.empty() && pairs.value.empty());
      continue;
    }
    ++valid_ones;
    ASSERT_LE(pairs.size(), most);
    ASSERT_EQ(pairs.value.size(), pairs.size());
    ASSERT_EQ(std::ranges::adjacent_find(pairs.index, std::ranges::greater_equal{}),
              pairs.index.end());
    if (!pairs.empty()) {
      ASSERT_GE(pairs.index.front(), region.begin);
      ASSERT_LT(pairs.index.back(), region.end);
    }
  }
  EXPECT_GT(valid_ones, 10'000U);  // or the changes are too harsh to test anything
}

}  // namespace
}  // namespace topknot::core
