// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a message, in two ways that the first byte of an input chooses between. It
// may be the message itself, its stamp put right so that most inputs reach the payload.
// Or it may say the pairs of a message, and then a few bytes of it to change.
//
// What decodes must be in order and in range, must be what the slow reader reads, and
// must encode to the very same bytes, but for the checksum, which is right only then.
#include "core/wire/reference.h"
#include "fuzz/input.h"

namespace {

using namespace topknot;
using namespace topknot::core;
using topknot::fuzz::Input;
using topknot::fuzz::require;

constexpr std::size_t kChecksumAt = 8;
constexpr std::size_t kCountAt = 28;

// Values of steps need not be those that the encoder would choose, so only positions are
// compared for them: encoded with f32 they are the same bytes, but for the header.
void require_same_positions(const Message& message, const Sparse& pairs, Region region) {
  const auto coding = static_cast<Coding>(std::to_integer<unsigned>(message[7]) & 15);
  const Message again = message_of(pairs, region, {coding, Values::f32});
  const std::size_t positions = again.size() - kHeaderBytes - 4 * pairs.size();
  require(
      std::equal(again.begin() + kHeaderBytes,
                 again.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + positions),
                 message.begin() + kHeaderBytes));
}

void require_same_bytes(const Message& message, const Sparse& pairs, Region region) {
  if (std::ranges::any_of(pairs.value, [](float v) { return std::isnan(v); })) return;
  const auto coding = static_cast<Coding>(std::to_integer<unsigned>(message[7]) & 15);
  const auto values = static_cast<Values>(message[5]);
  const bool nonfinite = (message[7] & std::byte{0x10}) != std::byte{0};
  Message again = message_of(pairs, region, {coding, values}, nonfinite);
  require(!find_damage(message) == (again == message));
  std::copy_n(message.begin() + kChecksumAt, 4, again.begin() + kChecksumAt);
  require(again == message);
}

bool same_bits(const Sparse& a, const Sparse& b) {
  return a.index == b.index &&
         std::ranges::equal(
             a.value, b.value, {},
             [](float x) { return std::bit_cast<std::uint32_t>(x); },
             [](float x) { return std::bit_cast<std::uint32_t>(x); });
}

void check(const Message& message, Region region, std::uint64_t most) {
  Sparse pairs;
  Decoded said;
  const auto fault = decode(message, kStamp, region, most, pairs, said);
  // Messages of positions alone are none that the slow reader reads.
  const bool has_values =
      message.size() <= 5 || message[5] != static_cast<std::byte>(Values::none);
  if (has_values) {
    const auto slow = SlowReader(message, region, most).read();
    require(slow.has_value() == !fault);
    require(!slow || same_bits(*slow, pairs));
  }
  if (fault) {
    require(pairs.index.empty() && pairs.value.empty() && !fault->str().empty());
    return;
  }
  require(pairs.size() <= most && said.count == pairs.size());
  require(message.size() <=
          message_bound(pairs.size(), region.size(),
                        {static_cast<Coding>(std::to_integer<unsigned>(message[7]) & 15),
                         static_cast<Values>(message[5])}));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    require(pairs.index[i] >= region.begin && pairs.index[i] < region.end);
    require(i == 0 || pairs.index[i - 1] < pairs.index[i]);
  }
  if (!has_values) return;
  if (message[5] <= std::byte{1}) {
    require_same_bytes(message, pairs, region);
  } else {
    require_same_positions(message, pairs, region);
  }
}

void check_dense(const Message& message, std::size_t n) {
  std::vector<float> dense(n, 7);
  Decoded said;
  const auto fault = decode_dense(message, kStamp, dense, false, said);
  if (fault) require(dense == std::vector<float>(n, 7));
}

void check_raw(Input input) {
  const std::uint64_t begin = input.byte();
  const Region region{begin, begin + std::min<std::uint64_t>(input.number(), 0xFFFFFF00)};
  const std::uint64_t most = input.number();
  const bool stamped = input.byte() % 8 != 0;
  Message message;
  for (const std::uint8_t x : input.left()) message.push_back(std::byte{x});
  message.shrink_to_fit();
  if (stamped && message.size() >= kHeaderBytes) {
    const Message right = message_of({}, {0, 0}, {});
    for (std::size_t at = 0; at < 28; ++at) {
      if (at != 5 && at != 7) message[at] = right[at];
    }
  }
  check(message, region, most);
  if (region.size() < 10'000) check_dense(message, region.size());
}

void check_made(Input input) {
  const Format format{kAllCodings[input.byte() % 6], kAllValues[input.byte() % 4]};
  const std::uint64_t begin = input.number();
  const std::size_t changes = input.byte() % 4;
  const std::size_t count = std::min<std::uint64_t>(input.number(), 1000);
  const std::uint64_t slack = input.number();
  std::uint64_t next = begin;
  Sparse pairs;
  for (std::size_t i = 0; i < count && next + slack < 2'000'000'000; ++i) {
    const std::uint8_t value = input.byte();
    next += input.number();
    pairs.push_back(static_cast<std::uint32_t>(next++),
                    std::bit_cast<float>(value << 23));
  }
  const Region region{begin, next + slack};
  // Bitmaps of large regions would take all the time.
  if (region.size() > 5'000 && static_cast<unsigned>(format.coding) > 2) return;
  Message message = message_of(pairs, region, format);
  Sparse got;
  Decoded said;
  require(!decode(message, kStamp, region, pairs.size(), got, said));
  require(got.index == pairs.index);
  require(format.values != Values::f32 || same_bits(got, pairs));
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = kCountAt + input.number() % (message.size() - kCountAt);
    message[at] = std::byte{input.byte()};
  }
  check(message, region, region.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({data, size});
  if (input.byte() % 2 == 0) {
    check_raw(input);
  } else {
    check_made(input);
  }
  return 0;
}
