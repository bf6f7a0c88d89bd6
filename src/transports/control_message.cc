// SPDX-License-Identifier: Apache-2.0
#include "transports/control_message.h"

#include <cstring>
#include <string>

#include "core/hash.h"
#include "core/plant.h"
#include "topknot/error.h"

namespace topknot::transports {
namespace {

constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kLengthBytes = 8;

std::uint64_t checksum_of(const Bytes& message) {
  return core::hash(std::span(message).subspan(kChecksumBytes));
}

const char* name_of(ControlOperation operation) {
  switch (operation) {
    case ControlOperation::gather:
      return "gather";
    case ControlOperation::gather_at_0:
      return "gather at rank 0";
    case ControlOperation::broadcast:
      return "broadcast";
    case ControlOperation::outcome:
      return "outcome of a task";
    case ControlOperation::decision:
      return "decision of rank 0";
  }
  return "unknown operation";
}

}  // namespace

std::size_t control_message_limit(std::size_t parts, std::size_t most) {
  return kHeaderBytes + parts * (kLengthBytes + most);
}

Bytes pack_control(ControlStamp stamp, std::span<const Bytes> parts) {
  std::size_t size = control_message_limit(parts.size(), 0);
  for (const Bytes& part : parts) size += part.size();
  Bytes message(size);
  std::byte* to = message.data();
  const auto write = [&](const void* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  const std::uint32_t header[] = {static_cast<std::uint32_t>(stamp.operation),
                                  static_cast<std::uint32_t>(parts.size())};
  to += kChecksumBytes;
  write(header, sizeof header);
  write(&stamp.number, sizeof stamp.number);
  for (const Bytes& part : parts) {
    const std::uint64_t length = part.size();
    write(&length, sizeof length);
  }
  for (const Bytes& part : parts) write(part.data(), part.size());
  const std::uint64_t checksum = checksum_of(message);
  std::memcpy(message.data(), &checksum, sizeof checksum);
  return message;
}

std::vector<Bytes> unpack_control(const Bytes& message, ControlStamp expected,
                                  std::size_t count, int from, int rank) {
  const auto require = [&](bool is_so) {
    if (!is_so)
      throw LinkError(
          from, "Rank " + std::to_string(from) + " sent a control message of " +
                    std::to_string(message.size()) + " bytes that cannot be read (" +
                    name_of(expected.operation) + ").");
  };
  std::size_t begin = 0;
  const auto read = [&](auto value) {
    std::memcpy(&value, message.data() + begin, sizeof value);
    begin += sizeof value;
    return value;
  };
  require(message.size() >= kHeaderBytes);
  if (read(std::uint64_t{}) != checksum_of(message))
    throw LinkError(from, "A control message of " + std::to_string(message.size()) +
                              " bytes was damaged on its way from rank " +
                              std::to_string(from) + " to rank " + std::to_string(rank) +
                              " (" + name_of(expected.operation) + ").");
  ControlStamp theirs{static_cast<ControlOperation>(read(std::uint32_t{}))};
  const auto parts_told = read(std::uint32_t{});
  theirs.number = read(std::uint64_t{});
  const auto disagree = [&](const std::string& mine, const std::string& other) {
    throw DisagreementError(from, "operation is " + mine + " on rank " +
                                      std::to_string(rank) + " but " + other +
                                      " on rank " + std::to_string(from));
  };
  if (theirs.operation != expected.operation && !TOPKNOT_PLANT(other_operation_accepted))
    disagree(name_of(expected.operation), name_of(theirs.operation));
  if (theirs.number != expected.number && !TOPKNOT_PLANT(stale_control_message_accepted))
    disagree("number " + std::to_string(expected.number),
             "number " + std::to_string(theirs.number));
  require(parts_told == count);
  require((message.size() - begin) / kLengthBytes >= count);
  std::vector<std::uint64_t> lengths(count);
  std::size_t left = message.size() - begin - count * kLengthBytes;
  for (std::uint64_t& length : lengths) {
    length = read(std::uint64_t{});
    require(length <= left || TOPKNOT_PLANT(part_longer_than_its_message));
    left -= length;
  }
  require(left == 0);
  std::vector<Bytes> parts;
  for (const std::uint64_t length : lengths) {
    const auto first = message.begin() + static_cast<std::ptrdiff_t>(begin);
    parts.emplace_back(first, first + static_cast<std::ptrdiff_t>(length));
    begin += length;
  }
  return parts;
}

}  // namespace topknot::transports
