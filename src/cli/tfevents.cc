// SPDX-License-Identifier: Apache-2.0
//
// A record of the file, all numbers little-endian:
//
//     u64 length | u32 masked crc32c of those 8 bytes | length bytes | u32 their masked crc32c
//
// The bytes are an Event of tensorflow's event.proto:
//
//     1 double wall_time   2 int64 step   3 string file_version
//     5 Summary { 1 Value { 1 string tag   2 float simple_value } }   7 SessionLog { 1 status }
#include "cli/tfevents.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "topknot/error.h"

namespace topknot::cli {
namespace {

enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) * kPolynomial);
    table[i] = crc;
  }
  return table;
}

template <typename Number>
void put_fixed(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    out += static_cast<char>(number >> (8 * i) & 0xFF);
}

void put_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  out += static_cast<char>(number);
}

void put_key(std::string& out, unsigned field, Wire wire) {
  put_varint(out, field << 3 | wire);
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xA282EAD8;
}

std::string event_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, 1, kFixed64);
  put_fixed(event,
            std::bit_cast<std::uint64_t>(std::chrono::duration<double>(now).count()));
  return event;
}

std::string event_at(std::uint64_t step) {
  std::string event = event_now();
  put_key(event, 2, kVarint);
  put_varint(event, step);
  return event;
}

/// Files are told apart, and put in order, by the time and the process in their names.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}", seconds.count(),
                              host.data(), getpid());
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::uint64_t first_step)
    : path_(new_name(folder)), file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
  if (!file_)
    throw StorageError(fmt::format("The file {} cannot be made: {}.", path_.string(),
                                   std::strerror(errno)));
  std::string version = event_now();
  put_bytes(version, 3, "brain.Event:2");
  write(version);
  if (first_step == 0) return;
  constexpr std::string_view kStart("\x08\x01", 2);
  std::string session = event_at(first_step);
  put_bytes(session, 7, kStart);
  write(session);
}

void EventFile::scalar(std::string_view tag, std::uint64_t step, double value) {
  std::string said;
  put_bytes(said, 1, tag);
  put_key(said, 2, kFixed32);
  put_fixed(said, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary;
  put_bytes(summary, 1, said);
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  write(event);
}

void EventFile::text(std::string_view tag, std::uint64_t step, std::string_view said) {
  constexpr std::uint64_t kString = 7;  // a tensor's type
  std::string plugin;
  put_bytes(plugin, 1, "text");
  std::string metadata;
  put_bytes(metadata, 1, plugin);
  std::string tensor;
  put_key(tensor, 1, kVarint);
  put_varint(tensor, kString);
  put_bytes(tensor, 2, "");  // its shape: none, it is one value
  put_bytes(tensor, 8, said);
  std::string value;
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  std::string summary;
  put_bytes(summary, 1, value);
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  write(event);
}

void EventFile::write(std::string_view event) {
  std::string record;
  put_fixed(record, std::uint64_t{event.size()});
  put_fixed(record, masked_crc(record));
  record += event;
  put_fixed(record, masked_crc(event));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0)
    throw StorageError(fmt::format("The file {} cannot be written: {}.", path_.string(),
                                   std::strerror(errno)));
}

}  // namespace topknot::cli
