// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d/frame.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "core/hash.h"
#include "transports/failure_agreement.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

constexpr std::byte kMark{0xA5};

std::uint64_t eager_bytes(const Header& header) {
  return std::min<std::uint64_t>(header.length, kEager);
}

std::uint64_t checksum_of(Header header) {
  header.checksum = 0;
  return core::hash(std::as_bytes(std::span(&header, 1)));
}

/// What is wrong with a header that came whole; empty where nothing is.
std::string fault_of(const Header& header) {
  const std::string length = std::to_string(header.length) + " bytes";
  switch (header.kind) {
    case Kind::data:
      if ((header.length > kEager) != (header.rest_tag != 0))
        return "of a message of " + length + " with the tag " +
               std::to_string(header.rest_tag) + " for its rest";
      break;
    case Kind::control:
      if (header.length > transports::FailureAgreement::kMostBytes)
        return "of a control message of " + length;
      [[fallthrough]];
    case Kind::closing:
      if (header.rest_tag != 0) return "of a short message that has a rest";
      break;
    default:
      return "of the unknown kind " +
             std::to_string(static_cast<std::uint32_t>(header.kind));
  }
  if (header.rest_tag > kRestTags)
    return "with the tag " + std::to_string(header.rest_tag) + ", which is above " +
           std::to_string(kRestTags);
  return "";
}

}  // namespace

Bytes make_frame(Header header, std::span<const std::byte> bytes) {
  header.checksum = checksum_of(header);
  Bytes frame(sizeof header + bytes.size() + 1);
  std::memcpy(frame.data(), &header, sizeof header);
  std::ranges::copy(bytes, frame.begin() + sizeof header);
  frame.back() = kMark;
  return frame;
}

std::variant<Frame, std::string> read_frame(std::span<const std::byte> memory) {
  Header header;
  if (memory.size() < sizeof header) return "a frame without a header";
  std::memcpy(&header, memory.data(), sizeof header);
  if (header.checksum != checksum_of(header))
    return "a frame whose header was damaged on the way";
  std::string fault = fault_of(header);
  if (!fault.empty()) return "a frame " + fault;
  const std::span<const std::byte> body = memory.subspan(sizeof header);
  const std::uint64_t eager = eager_bytes(header);
  if (eager >= body.size() || body[eager] != kMark)
    return "a frame that was cut: it has fewer than the " + std::to_string(eager) +
           " bytes that were announced";
  return Frame{header, body.first(eager)};
}

// Relaxed: this is a hint. The wait for the receive orders the bytes.
bool frame_has_arrived(std::span<std::byte> memory) {
  std::array<std::uint64_t, sizeof(Header) / 8> words;
  if (memory.size() < sizeof(Header)) return false;
  auto* const first = reinterpret_cast<std::uint64_t*>(memory.data());
  for (std::size_t i = words.size(); i-- > 0;) {
    words[i] = std::atomic_ref(first[i]).load(std::memory_order_relaxed);
    // The checksum comes last.
    if (i + 1 == words.size() && words[i] == 0) return false;
  }
  const auto header = std::bit_cast<Header>(words);
  if (header.checksum != checksum_of(header)) return false;
  const std::uint64_t mark = sizeof(Header) + eager_bytes(header);
  return mark < memory.size() &&
         std::atomic_ref(memory[mark]).load(std::memory_order_relaxed) == kMark;
}

void clear_frame(std::span<std::byte> memory) {
  Header header;
  std::memcpy(&header, memory.data(), sizeof header);
  const std::uint64_t used = sizeof header + eager_bytes(header) + 1;
  std::ranges::fill(memory.first(std::min<std::uint64_t>(used, memory.size())),
                    std::byte{});
}

}  // namespace topknot::c10d_link
