// SPDX-License-Identifier: Apache-2.0
//
// A message: 32 bytes of header, then indices, then values, little endian.
//
//   magic u32 | version u8 | values u8 | phase u8 | coding (low 4 bits) and flags u8
//   checksum u32 | step u32 | fingerprint u64 | from u16 | to u16 | count u32
//
// The payload's layout is drawn in index_write.cc for each coding and in
// values.cc for each format of values. Positions travel relative to the region that
// both sides know, so they are small and sorted; the decoder accepts any bytes and gives
// either a valid vector or a Fault, and never writes out of range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/sparse.h"

namespace topknot::core {

inline constexpr std::size_t kHeaderBytes = 32;
/// In every header; messages of another version are refused.
inline constexpr std::uint8_t kWireVersion = 2;

/// How positions travel. `automatic` takes the smallest for the message at hand. `dense`
/// is for vectors that have every position of the region; one that lacks some goes as a
/// `bitmap`, so that every coding gives back exactly the pairs that went in. A vector
/// without pairs is a header alone in all of them.
enum class Coding : std::uint8_t { plain, delta, rice, bitmap, dense, automatic };
/// How values travel: whole, as bfloat16 rounded to nearest even, or as 8- or 2-bit steps
/// of a power of two that the message carries. `none` sends positions alone, and all
/// values read zero.
enum class Values : std::uint8_t { f32, bf16, i8, i2, none };

struct Format {
  Coding coding = Coding::automatic;
  Values values = Values::f32;
};

std::string_view name(Coding coding);
std::string_view name(Values values);

/// Says which message this is. Sender and receiver each make one; they must be equal.
struct Stamp {
  std::uint8_t phase = 0;         ///< which exchange of the algorithm
  std::uint32_t step = 0;         ///< which reduce of the channel
  std::uint64_t fingerprint = 0;  ///< of everything else both sides must agree on
  std::uint16_t from = 0;
  std::uint16_t to = 0;
};

/// The coordinates [begin, end) of a vector.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Region&, const Region&) = default;
};

/// Replaces `message` with `pairs`, all of which lie in `region`. `nonfinite` tells the
/// receiver that this rank knows of a nonfinite value. When `error` is not
/// empty it is as long as `pairs`, and error[i] becomes pairs.value[i] minus what the
/// receiver will read: all zero for f32; for bf16 and i8 the exact difference.
void encode(const Stamp& stamp, SparseView pairs, Region region, Format format,
            bool nonfinite, std::vector<std::byte>& message, std::span<float> error);

/// Replaces `message` with all of `dense`, which is one whole region.
void encode_dense(const Stamp& stamp, std::span<const float> dense, Values values,
                  bool nonfinite, std::vector<std::byte>& message,
                  std::span<float> error);

/// What is wrong with a message.
struct Fault {
  enum class Kind : std::uint8_t {
    garbled,   ///< not a message of ours, cut short, or with contents out of range
    mismatch,  ///< a valid header, but not of the message that was expected
  };
  Kind kind;
  std::string_view field;  ///< "length", "magic", "step", "index", ...
  std::uint64_t got = 0;
  std::uint64_t want = 0;

  /// "step is 7, expected 8".
  std::string str() const;
};

/// What a decoded message said besides its pairs.
struct Decoded {
  std::size_t count = 0;
  bool nonfinite = false;
};

/// Replaces `pairs` with what `message` holds, in absolute positions of `region`. At most
/// `most` pairs are accepted. Any bytes may come, and the checksum is not looked at: that is for
/// find_damage(), once for each rank that a message passes. On a fault `pairs` is empty. Never allocates more than the
/// message's own length allows for.
std::optional<Fault> decode(std::span<const std::byte> message, const Stamp& expected,
                            Region region, std::uint64_t most, Sparse& pairs,
                            Decoded& said);

/// The same for a message of encode_dense: `dense` is overwritten, or, with `add`, added
/// to. On a fault `dense` is untouched.
std::optional<Fault> decode_dense(std::span<const std::byte> message,
                                  const Stamp& expected, std::span<float> dense, bool add,
                                  Decoded& said);

/// Fills `value` with what readers will find in `message`, which is as encode() has made it of
/// as many pairs: nothing of it is checked.
void read_back(std::span<const std::byte> message, std::span<float> value);

/// What is wrong with a message that has just come: it is none of ours, or a bit of it is not as
/// encode() has left it. Its contents are not looked at, so it serves for what is only passed on.
std::optional<Fault> find_damage(std::span<const std::byte> message);

/// The stamp of a message, or of what its first bytes are; nothing where it has none.
std::optional<Stamp> stamp_of(std::span<const std::byte> message);

/// Whether a message says that its sender knows of a nonfinite value; false for what is not
/// a message.
bool says_nonfinite(std::span<const std::byte> message);

/// The longest message that encode() can make of `most` pairs of a region of `size`.
std::size_t message_bound(std::uint64_t most, std::uint64_t size, Format format);

}  // namespace topknot::core
