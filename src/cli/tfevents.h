// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard's event files, as far as scalars and texts need them: a few messages of protocol
// buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace topknot::cli {

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// A file of events that is being written, each flushed when it is whole. Throws
/// StorageError, naming the file, when the disk refuses.
class EventFile {
 public:
  /// Makes a file with a name that TensorBoard knows in a folder that is there. What other
  /// files of the folder say of steps from `first_step` on no longer counts, unless it is 0.
  EventFile(const std::filesystem::path& folder, std::uint64_t first_step);

  /// Says that the quantity `tag` was `value` at a step.
  void scalar(std::string_view tag, std::uint64_t step, double value);
  /// Says a text under `tag`.
  void text(std::string_view tag, std::uint64_t step, std::string_view said);

 private:
  void write(std::string_view event);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace topknot::cli
