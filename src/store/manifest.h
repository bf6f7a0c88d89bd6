// SPDX-License-Identifier: Apache-2.0
//
// The manifest makes a folder of files a checkpoint: it names each with its length and
// its hash, and ends in a hash of itself. Plain lines, for people to read:
//
//     topknot checkpoint 1
//     step 1200
//     ranks 2
//     attempt node7-4711-18c2f7a09b3d2e11
//     config 93f1c0de
//     model 7a11be5f
//     file 44792 1f0c3a5577e8d9b0 weights.safetensors
//     file 90112 88aa01c2d3e4f567 shard-0.safetensors
//     file 90112 0d1e2f3a4b5c6d7e shard-1.safetensors
//     hash c0ffee0012345678
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topknot::store {

/// The length and the hash of a file.
struct FileSeal {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;

  friend bool operator==(const FileSeal&, const FileSeal&) = default;
};

FileSeal seal_of(std::span<const std::span<const std::byte>> pieces);

std::string weights_name();
std::string shard_name(std::uint64_t rank);

/// Each text is one line without control characters.
struct Manifest {
  static constexpr int kVersion = 1;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 24;

  std::uint64_t step = 0;
  std::string attempt;  ///< the run that wrote it
  std::string config;
  std::string model;
  FileSeal weights;
  std::vector<FileSeal> shards;  ///< by rank: as many as ranks saved

  friend bool operator==(const Manifest&, const Manifest&) = default;

  /// Throws ContractError when a text is not a line.
  std::string str() const;
  /// Accepts only what str() writes. Throws DataError, which calls the text `what`.
  static Manifest parse(std::span<const std::byte> text, const std::string& what);
};

}  // namespace topknot::store
