// SPDX-License-Identifier: Apache-2.0
//
// The frame of a message over c10d: 32 bytes of header, the message's first bytes, and a mark, which
// is never 0. The memory of a receive is all 0 before, so that the mark shows when a frame has come
// as a whole, and that none was cut. c10d.cc says how frames travel. Nothing here knows torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace topknot::c10d_link {

using Bytes = std::vector<std::byte>;

/// The beginning of a frame.
struct Header {
  enum class Kind : std::uint32_t { data, control, closing };
  std::uint64_t channel = 0;
  std::uint64_t length = 0;  ///< of the whole message
  Kind kind = Kind::data;
  std::uint32_t rest_tag = 0;  ///< 0 where there is no rest
  std::uint64_t checksum = 0;  ///< of the header with 0 here; make_frame() writes it
};
static_assert(sizeof(Header) == 32);

/// A frame has at most so many bytes of its message; the rest follows.
inline constexpr std::size_t kEager = std::size_t{64} << 10;
/// No frame is longer.
inline constexpr std::size_t kMostFrameBytes = sizeof(Header) + kEager + 1;
inline constexpr int kFrameTag = 0;
/// Rests have the tags 1 .. kRestTags; more rests at once share tags.
inline constexpr std::uint32_t kRestTags = 4096;

/// `bytes` are those that travel in the frame.
Bytes make_frame(Header header, std::span<const std::byte> bytes);

struct Frame {
  Header header;
  std::span<const std::byte> bytes;  ///< of the message, within the memory that was read
};

/// What `memory` holds, in which a frame has arrived, or a sentence about why that is none. The
/// memory may be longer than the frame.
std::variant<Frame, std::string> read_frame(std::span<const std::byte> memory);

/// Whether a frame lies in `memory` as a whole, which may be written to meanwhile. The memory
/// begins at a multiple of 8 bytes. What is there may be read once the receive is done.
bool frame_has_arrived(std::span<std::byte> memory);

/// Makes memory that a frame was received into all 0 again.
void clear_frame(std::span<std::byte> memory);

}  // namespace topknot::c10d_link
