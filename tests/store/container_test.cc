// SPDX-License-Identifier: Apache-2.0
#include "store/container.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/random.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

std::vector<std::byte> file_of(const Container& container) {
  std::string header;
  std::vector<std::byte> file;
  for (const auto piece : container.pieces(header))
    file.insert(file.end(), piece.begin(), piece.end());
  return file;
}

// Padded, so that no fault is only one of alignment.
std::vector<std::byte> file_of(std::string header, std::size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::vector<std::byte> file;
  for (std::size_t i = 0; i < 8; ++i)
    file.push_back(static_cast<std::byte>(header.size() >> (8 * i)));
  for (const char c : header) file.push_back(static_cast<std::byte>(c));
  file.resize(file.size() + data_bytes);
  return file;
}

Container some() {
  Container c;
  c.metadata["made by"] = "a \"test\"";
  c.keep("b", std::vector<std::uint8_t>{1, 2, 3});
  c.keep("w", std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  c.keep("n", std::uint64_t{7});
  c.keep("i", std::int64_t{-7});
  c.keep("d", 0.25);
  c.keep("none", std::vector<float>{}, {4, 0});
  alignas(2) static constexpr std::byte kHalves[4] = {};
  c.view("h", Dtype::bf16, {2}, kHalves);
  return c;
}

void expect_same(const Container& a, const Container& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.arrays().size(), b.arrays().size());
  for (const auto& [name, array] : a.arrays()) {
    const Array& other = b.at(name);
    EXPECT_EQ(array.dtype, other.dtype);
    EXPECT_EQ(array.shape, other.shape);
    EXPECT_TRUE(std::ranges::equal(array.bytes, other.bytes)) << name;
  }
}

TEST(Container, ComesBackAsItWas) {
  const Container read = Container::parse(file_of(some()), "f");
  expect_same(read, some());
  EXPECT_EQ(read.scalar<std::int64_t>("i"), -7);
  EXPECT_EQ(read.scalar<double>("d"), 0.25);
  EXPECT_EQ(read.values<float>("w")[5], 6);
  expect_same(Container::parse(file_of(Container{}), "f"), Container{});
}

TEST(Container, IsLaidOutAsSafetensorsIs) {
  Container c;
  c.keep("b", std::vector<std::uint8_t>{9});
  c.keep("a", std::vector<float>{1}, {1, 1});
  const std::string header = R"({"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  std::vector<std::byte> expected = file_of(header, 5);
  expected[expected.size() - 3] = std::byte{0x80};
  expected[expected.size() - 2] = std::byte{0x3F};
  expected[expected.size() - 1] = std::byte{9};
  EXPECT_EQ(file_of(c), expected);
}

TEST(Container, OutlivesWhatItWasCopiedFrom) {
  Container copy;
  {
    const Container read = Container::parse(file_of(some()), "f");
    copy = read;
  }
  expect_same(copy, some());
}

TEST(Container, RefusesWhatIsNotThere) {
  const Container c = some();
  EXPECT_THROW(c.at("x"), DataError);
  EXPECT_THROW(c.values<double>("w"), DataError);
  EXPECT_THROW(c.scalar<float>("w"), DataError);
  EXPECT_THROW(c.scalar<float>("none"), DataError);
}

TEST(Container, RefusesArraysThatAreWrong) {
  Container c = some();
  const std::vector<float> x(6);
  EXPECT_THROW(c.view("w", std::span(x)), ContractError);
  EXPECT_THROW(c.view("y", std::span(x), {7}), ContractError);
  EXPECT_THROW(c.view("y", std::span(x), {1ULL << 63, 2}), ContractError);
  EXPECT_THROW(c.view("__metadata__", std::span(x)), ContractError);
  EXPECT_THROW(c.view("\xff", std::span(x)), ContractError);
  EXPECT_THROW(c.view("y", Dtype::f32, {1}, std::as_bytes(std::span(x)).subspan(1, 4)),
               ContractError);
  c.metadata["k"] = "\xff";
  EXPECT_THROW(file_of(c), ContractError);
}

TEST(Container, RefusesHeadersThatAreWrong) {
  const std::string entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_NO_THROW(Container::parse(file_of("{\"abc\":" + entry + "}", 8), "f"));
  for (const std::string& header : {
           std::string(),
           std::string(" {}"),
           std::string("\xEF\xBB\xBF{}"),
           std::string("[]"),
           std::string("{"),
           "{\"a\":" + entry + "}x",
           "{\"a\":" + entry + ",}",
           "{\"a\":" + entry + ",\"a\":" + entry + "}",
           "{\"a\":" + entry + ",\"b\":" + entry + "}",
           std::string(R"({"a":null})"),
           std::string(R"({"a":{}})"),
           std::string(R"({"a":[]})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2]}})"),
           std::string(R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],)"
                       R"("data_offsets":[0,8]}})"),
           // 2^62 elements of 4 bytes are 0 when overflow goes unseen.
           std::string(R"({"a":{"dtype":"F32","shape":[4611686018427387904],)"
                       R"("data_offsets":[0,0]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[99999999999999999999],)"
                       R"("data_offsets":[0,8]}})"),
           std::string(R"({"__metadata__":{"a":1}})"),
           std::string(R"({"__metadata__":{"a":"x","a":"x"}})"),
           std::string(R"({"__metadata__":{"a":{}}})"),
           std::string(R"({"__metadata__":"x"})"),
           std::string(R"({"__metadata__":{},"__metadata__":{}})"),
           std::string(100'000, '['),
       })
    EXPECT_THROW(Container::parse(file_of(header, 8), "f"), DataError) << header;
}

TEST(Container, RefusesLengthsThatAreWrong) {
  const std::vector<std::byte> good = file_of(some());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(
        Container::parse({good.begin(), good.begin() + static_cast<long>(length)}, "f"),
        DataError);
  for (int bit = 0; bit < 64; ++bit) {
    auto bad = good;
    bad[static_cast<std::size_t>(bit / 8)] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(Container::parse(bad, "f"), DataError) << bit;
  }
}

TEST(Container, RefusesArraysThatAreNotAligned) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  EXPECT_THROW(Container::parse(file_of(header, 5), "f"), DataError);
}

TEST(Container, RefusesAHeaderThatIsMostOfTheFile) {
  Container c;
  c.metadata["long"] = std::string(2 << 20, 'x');
  EXPECT_THROW(file_of(c), ContractError);
  const std::string header = "{\"__metadata__\":{\"a\":\"" + c.metadata["long"] + "\"}}";
  EXPECT_THROW(Container::parse(file_of(header, 0), "f"), DataError);
}

TEST(Container, SurvivesChangesOfItsHeader) {
  const std::vector<std::byte> good = file_of(some());
  core::Random random(1);
  int read = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    auto bad = good;
    for (std::uint64_t i = random.below(3) + 1; i-- > 0;)
      bad[8 + random.below(bad.size() - 8)] = static_cast<std::byte>(random.bits());
    try {
      const Container c = Container::parse(bad, "f");
      expect_same(Container::parse(file_of(c), "again"), c);
      ++read;
    } catch (const DataError&) {
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace topknot::store
