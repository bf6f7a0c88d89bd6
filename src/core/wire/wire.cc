// SPDX-License-Identifier: Apache-2.0
//
// A message from its first byte to its last:
//
//   0      4       5      6     7            8        12   16          24   26 28
//   +------+-------+------+-----+------------+--------+----+-----------+----+--+-----+
//   | TKNT |version|values|phase|flags|coding|checksum|step|fingerprint|from|to|count|
//   +------+-------+------+-----+------------+--------+----+-----------+----+--+-----+
//   32
//   +------------------------------------+-------------------------------------------+
//   | positions: see index_write.cc      | values: see values.cc                     |
//   +------------------------------------+-------------------------------------------+
//
// Byte 7 has the coding in its low half. Of the flags above it, the lowest says that the
// sender knows of a nonfinite value; the others are zero until a later version gives them a
// meaning.
//
// The checksum is of all other bytes: the low half of XXH3, seeded with the first eight. Every
// receiver compares it before it reads a message or passes it on, so that damage is found where
// it was done. Version 1 had zero there; every later one has its checksum in this place.
//
// The decoder is total. Each check comes before the next byte is believed: that there is
// a header, that it is ours, that it is the message expected, that the count can be, that
// the length is exactly what the count and the coding ask for; only then is memory taken,
// and the positions are checked as they are read. For every coding there is one sequence
// of bytes for one set of positions: spare bits are zero and every parameter is the one
// that the encoder would have chosen. What decodes therefore encodes to the same bytes,
// which is what the fuzzer holds it to.
#include "core/wire/wire.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/hash.h"
#include "core/plant.h"
#include "core/wire/parts.h"

namespace topknot::core {
namespace {

using wire::garbled;

constexpr std::uint32_t kMagic = 0x544E4B54;  // "TKNT"
constexpr std::uint8_t kUncheckedVersion = 1;
constexpr std::uint8_t kCodingMask = 0x0F;
constexpr std::uint8_t kNonfinite = 0x10;
constexpr auto kCodings = static_cast<std::uint8_t>(Coding::automatic);  // 0 .. dense
constexpr auto kValues = static_cast<std::uint8_t>(Values::none) + 1;

struct Header {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t values;
  std::uint8_t phase;
  std::uint8_t coding_and_flags;
  std::uint32_t checksum;
  std::uint32_t step;
  std::uint64_t fingerprint;
  std::uint16_t from;
  std::uint16_t to;
  std::uint32_t count;
};
static_assert(sizeof(Header) == kHeaderBytes);

void write_header(const Stamp& stamp, Coding coding, Values values, bool nonfinite,
                  std::uint64_t count, std::byte* out) {
  const auto coding_and_flags = static_cast<std::uint8_t>(
      static_cast<std::uint8_t>(coding) | (nonfinite ? kNonfinite : 0));
  wire::store(out,
              Header{kMagic, kWireVersion, static_cast<std::uint8_t>(values), stamp.phase,
                     coding_and_flags, /*checksum=*/0, stamp.step, stamp.fingerprint,
                     stamp.from, stamp.to, static_cast<std::uint32_t>(count)});
}

constexpr std::size_t kChecksumAt = offsetof(Header, checksum);
static_assert(kChecksumAt == sizeof(std::uint64_t));

// Of a message that has a header.
std::uint32_t checksum_of(std::span<const std::byte> message) {
  const auto first = wire::load<std::uint64_t>(message.data());
  return static_cast<std::uint32_t>(
      hash(message.subspan(kChecksumAt + sizeof(std::uint32_t)), first));
}

void write_checksum(std::vector<std::byte>& message) {
  wire::store(message.data() + kChecksumAt, checksum_of(message));
}

// What a header says once it is known to be well formed and the one expected.
struct Contents {
  Coding coding;
  Values values;
  bool nonfinite;
  std::uint64_t count;
};

std::optional<Fault> check_stamp(const Header& header, const Stamp& expected) {
  struct Field {
    std::string_view name;
    std::uint64_t got;
    std::uint64_t want;
  };
  const std::array<Field, 5> fields = {{
      {"step", header.step, expected.step},
      {"phase", header.phase, expected.phase},
      {"from", header.from, expected.from},
      {"to", header.to, expected.to},
      {"fingerprint", header.fingerprint, expected.fingerprint},
  }};
  for (const Field& field : fields) {
    if (field.got != field.want && !TOPKNOT_PLANT(stale_message_accepted)) {
      return Fault{Fault::Kind::mismatch, field.name, field.got, field.want};
    }
  }
  return std::nullopt;
}

std::optional<Fault> read_header(std::span<const std::byte> message,
                                 const Stamp& expected, Contents& contents) {
  if (message.size() < kHeaderBytes) {
    return garbled("length", message.size(), kHeaderBytes);
  }
  const auto header = wire::load<Header>(message.data());
  if (header.magic != kMagic) return garbled("magic", header.magic, kMagic);
  if (header.version != kWireVersion)  // another build's, which is no damage
    return Fault{Fault::Kind::mismatch, "version", header.version, kWireVersion};
  if (auto fault = check_stamp(header, expected)) return fault;
  if (header.values >= kValues) return garbled("values", header.values, kValues - 1);
  const std::uint8_t coding = header.coding_and_flags & kCodingMask;
  if (coding >= kCodings) return garbled("coding", coding, kCodings - 1);
  const std::uint8_t flags = header.coding_and_flags & ~kCodingMask;
  if ((flags & ~kNonfinite) != 0) return garbled("flags", flags, flags & kNonfinite);
  contents = {static_cast<Coding>(coding), static_cast<Values>(header.values), flags != 0,
              header.count};
  return std::nullopt;
}

std::optional<Fault> check_length(std::span<const std::byte> message,
                                  const Contents& contents, std::uint64_t size) {
  std::uint64_t length = 0;
  if (auto fault = wire::expected_length(message, contents.coding, contents.values,
                                         contents.count, size, length)) {
    return fault;
  }
  if (message.size() != length && !TOPKNOT_PLANT(length_unchecked))
    return garbled("length", message.size(), length);
  return std::nullopt;
}

// The values are the last bytes of a message.
const std::byte* values_of(std::span<const std::byte> message, const Contents& contents) {
  return message.data() + message.size() -
         wire::value_bytes(contents.values, contents.count);
}

std::optional<Fault> read_pairs(std::span<const std::byte> message, const Stamp& expected,
                                Region region, std::uint64_t most, Sparse& pairs,
                                Decoded& said) {
  Contents contents{};
  if (auto fault = read_header(message, expected, contents)) return fault;
  const std::uint64_t limit = std::min(most, region.size());
  if (contents.count > limit && !TOPKNOT_PLANT(count_unchecked))
    return garbled("count", contents.count, limit);
  if (contents.coding == Coding::dense && contents.count != region.size()) {
    return garbled("count", contents.count, region.size());
  }
  if (auto fault = check_length(message, contents, region.size())) return fault;
  const std::byte* values = values_of(message, contents);
  if (auto fault = wire::check_values(contents.values, contents.count, values)) {
    return fault;
  }
  pairs.resize(contents.count);
  if (auto fault =
          wire::read_index(message, values, contents.coding, region, pairs.index)) {
    return fault;
  }
  wire::read_values(contents.values, values, pairs.value);
  said = {contents.count, contents.nonfinite};
  return std::nullopt;
}

}  // namespace

std::string_view name(Coding coding) {
  switch (coding) {
    case Coding::plain:
      return "plain";
    case Coding::delta:
      return "delta";
    case Coding::rice:
      return "rice";
    case Coding::bitmap:
      return "bitmap";
    case Coding::dense:
      return "dense";
    case Coding::automatic:
      return "auto";
  }
  return "unknown";
}

std::string_view name(Values values) {
  switch (values) {
    case Values::f32:
      return "f32";
    case Values::bf16:
      return "bf16";
    case Values::i8:
      return "i8";
    case Values::i2:
      return "i2";
    case Values::none:
      return "none";
  }
  return "unknown";
}

void encode(const Stamp& stamp, SparseView pairs, Region region, Format format,
            bool nonfinite, std::vector<std::byte>& message, std::span<float> error) {
  const wire::IndexPlan plan = wire::plan_index(format.coding, pairs.index, region);
  message.resize(kHeaderBytes + plan.bytes +
                 wire::value_bytes(format.values, pairs.size()));
  std::byte* out = message.data();
  write_header(stamp, plan.coding, format.values, nonfinite, pairs.size(), out);
  wire::write_index(plan, pairs.index, region, out + kHeaderBytes);
  wire::write_values(format.values, pairs.value, out + kHeaderBytes + plan.bytes, error);
  write_checksum(message);
}

void encode_dense(const Stamp& stamp, std::span<const float> dense, Values values,
                  bool nonfinite, std::vector<std::byte>& message,
                  std::span<float> error) {
  message.resize(kHeaderBytes + wire::value_bytes(values, dense.size()));
  write_header(stamp, Coding::dense, values, nonfinite, dense.size(), message.data());
  wire::write_values(values, dense, message.data() + kHeaderBytes, error);
  write_checksum(message);
}

std::optional<Fault> decode(std::span<const std::byte> message, const Stamp& expected,
                            Region region, std::uint64_t most, Sparse& pairs,
                            Decoded& said) {
  auto fault = read_pairs(message, expected, region, most, pairs, said);
  if (fault) pairs.clear();
  return fault;
}

std::optional<Fault> decode_dense(std::span<const std::byte> message,
                                  const Stamp& expected, std::span<float> dense, bool add,
                                  Decoded& said) {
  Contents contents{};
  if (auto fault = read_header(message, expected, contents)) return fault;
  if (contents.coding != Coding::dense) {
    return garbled("coding", static_cast<std::uint64_t>(contents.coding),
                   static_cast<std::uint64_t>(Coding::dense));
  }
  if (contents.count != dense.size()) {
    return garbled("count", contents.count, dense.size());
  }
  if (auto fault = check_length(message, contents, dense.size())) return fault;
  const std::byte* values = values_of(message, contents);
  if (auto fault = wire::check_values(contents.values, contents.count, values)) {
    return fault;
  }
  if (add) {
    wire::add_values(contents.values, values, dense);
  } else {
    wire::read_values(contents.values, values, dense);
  }
  said = {contents.count, contents.nonfinite};
  return std::nullopt;
}

void read_back(std::span<const std::byte> message, std::span<float> value) {
  const auto values = static_cast<Values>(wire::load<Header>(message.data()).values);
  wire::read_values(
      values, message.data() + message.size() - wire::value_bytes(values, value.size()),
      value);
}

std::optional<Fault> find_damage(std::span<const std::byte> message) {
  if (message.size() < kHeaderBytes)
    return garbled("length", message.size(), kHeaderBytes);
  const auto header = wire::load<Header>(message.data());
  if (header.magic != kMagic) return garbled("magic", header.magic, kMagic);
  if (header.version == kUncheckedVersion) return std::nullopt;  // decode() refuses it
  const std::uint32_t checksum = checksum_of(message);
  if (header.checksum != checksum && !TOPKNOT_PLANT(checksum_not_compared))
    return garbled("checksum", header.checksum, checksum);
  return std::nullopt;
}

std::optional<Stamp> stamp_of(std::span<const std::byte> message) {
  if (message.size() < kHeaderBytes) return std::nullopt;
  const auto header = wire::load<Header>(message.data());
  if (header.magic != kMagic || header.version != kWireVersion) return std::nullopt;
  return Stamp{header.phase, header.step, header.fingerprint, header.from, header.to};
}

bool says_nonfinite(std::span<const std::byte> message) {
  if (message.size() < kHeaderBytes) return false;
  const auto header = wire::load<Header>(message.data());
  return header.magic == kMagic && (header.coding_and_flags & kNonfinite) != 0;
}

std::size_t message_bound(std::uint64_t most, std::uint64_t size, Format format) {
  const std::uint64_t count = std::min(most, size);
  return kHeaderBytes + wire::index_bound(format.coding, count, size) +
         wire::value_bytes(format.values, count);
}

std::string Fault::str() const {
  // For these `want` is an end of a range, and the side that was missed is the side
  // meant.
  constexpr std::array<std::string_view, 3> kRanges = {"count", "index", "values"};
  const bool range = std::ranges::find(kRanges, field) != kRanges.end();
  const std::string_view bound = !range ? "" : got > want ? "at most " : "at least ";
  std::string sentence(field);
  sentence += " is " + std::to_string(got) + ", expected ";
  sentence += bound;
  sentence += std::to_string(want);
  return sentence;
}

}  // namespace topknot::core
