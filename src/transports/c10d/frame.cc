// SPDX-License-Identifier: Apache-2.0
#include "transports/c10d/frame.h"

#include <algorithm>
#include <cstring>

#include "core/hash.h"
#include "transports/failure_agreement.h"

namespace topknot::c10d_link {
namespace {

using Kind = Header::Kind;

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
  Bytes frame(sizeof header + bytes.size());
  std::memcpy(frame.data(), &header, sizeof header);
  std::ranges::copy(bytes, frame.begin() + sizeof header);
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
  const std::uint64_t eager = std::min<std::uint64_t>(header.length, kEager);
  if (eager > body.size())
    return "a frame of " + std::to_string(body.size()) + " bytes where " +
           std::to_string(eager) + " were announced";
  return Frame{header, body.first(eager)};
}

}  // namespace topknot::c10d_link
