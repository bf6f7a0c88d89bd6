// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a frame of c10d, with the header's checksum and the mark put right for most of
// them. What is read as a frame lies within the bytes, and its header makes the same frame again.
#include <algorithm>
#include <cstring>

#include "core/hash.h"
#include "fuzz/input.h"
#include "transports/c10d/frame.h"

namespace {

using namespace topknot;
using namespace topknot::c10d_link;
using topknot::fuzz::require;

void seal(Bytes& memory) {
  Header header;
  std::memcpy(&header, memory.data(), sizeof header);
  header.checksum = 0;
  header.checksum = core::hash(std::as_bytes(std::span(&header, 1)));
  std::memcpy(memory.data(), &header, sizeof header);
  const std::uint64_t mark =
      sizeof header + std::min<std::uint64_t>(header.length, kEager);
  if (mark < memory.size()) memory[mark] = std::byte{0xA5};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topknot::fuzz::Input input({data, size});
  const std::uint8_t choice = input.byte();
  Bytes memory;
  for (const std::uint8_t x : input.left()) memory.push_back(std::byte{x});
  if (choice % 4 == 0) memory.resize(kMostFrameBytes);
  if (choice % 8 != 1 && memory.size() >= sizeof(Header)) seal(memory);
  memory.shrink_to_fit();
  const bool whole = frame_has_arrived(memory);
  const auto read = read_frame(memory);
  if (const auto* fault = std::get_if<std::string>(&read)) {
    require(!fault->empty());
    return 0;
  }
  const auto& [header, bytes] = std::get<Frame>(read);
  require(whole);
  require(bytes.size() <= kEager && bytes.size() <= header.length);
  require(bytes.size() + sizeof(Header) < memory.size());
  require(header.rest_tag <= kRestTags);
  const Bytes again = make_frame(header, bytes);
  require(std::memcmp(again.data(), memory.data(), again.size()) == 0);
  return 0;
}
