// SPDX-License-Identifier: Apache-2.0
//
// All that a checkpoint asks of a file system, so that a test can put one in its place
// that fails, forgets or stops at any call. Every call is one step that can go wrong by
// itself; none tries again what failed, for after a failed fsync nobody knows what is on
// the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topknot::store {

/// A file that is being written for the first time. Going away closes it without a word:
/// what was not synced may or may not be there after a crash.
class NewFile {
 public:
  virtual ~NewFile() = default;

  /// Asks for room for `bytes` before the first is written, where the disk can.
  virtual void reserve(std::uint64_t bytes) = 0;
  /// Appends all of `bytes`.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Returns when what was written is on the disk.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// A file system. Every call throws StorageError, naming itself, the path and the reason,
/// when it is refused.
class Files {
 public:
  virtual ~Files() = default;

  /// A file that must not be there yet.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  /// The whole file. Throws DataError when it is missing, cannot be read off the disk, or
  /// is longer than `most` bytes, before any is read.
  virtual std::vector<std::byte> read(const std::string& path, std::uint64_t most) = 0;
  /// The names in a folder, sorted; none when there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// Makes a folder, and those above it that are missing. Returns false when it was
  /// there.
  virtual bool make_folder(const std::string& path) = 0;
  /// Moves a file, over the one that is there, or a folder, to where there is none: at
  /// every instant each name is what it was or what it is to be.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Two folders change names at one instant. Where the file system cannot do that, `to`
  /// is moved aside first, and there is an instant without it.
  virtual void exchange(const std::string& from, const std::string& to) = 0;
  /// Returns when the names in a folder are on the disk.
  virtual void sync_folder(const std::string& folder) = 0;
  virtual void remove_file(const std::string& path) = 0;
  /// Removes a folder that is empty.
  virtual void remove_folder(const std::string& path) = 0;
};

/// The machine's own file system. Any number of threads may use it.
Files& disk();

/// The folder that a path is in.
std::string parent_of(const std::string& path);

/// Makes `path` of `pieces`, one after another, and returns when it is on the disk.
void write_new(Files& files, const std::string& path,
               std::span<const std::span<const std::byte>> pieces);

/// Removes a folder and the files in it, but no folders in it.
void remove_with_files(Files& files, const std::string& folder);

}  // namespace topknot::store
