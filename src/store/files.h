// SPDX-License-Identifier: Apache-2.0
//
// All that checkpoints need of a file system, so that a test can replace it by one that fails,
// forgets or stops at any call. Every call is one step that can fail by itself. None repeats what
// failed: after a failed fsync it is unknown what is on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topknot::store {

/// A new file that is being written. The destructor closes it and reports no error: bytes that
/// were not synced may or may not be there after a crash.
class NewFile {
 public:
  virtual ~NewFile() = default;

  /// Reserves space for `bytes` before the first is written, where the file system can.
  virtual void reserve(std::uint64_t bytes) = 0;
  /// Appends all of `bytes`.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Returns when what was written is on the disk.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// A file system. A call that is refused throws StorageError, which names the call, the path and
/// the reason.
class Files {
 public:
  virtual ~Files() = default;

  /// Makes a file, which must not exist yet.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  /// Reads a whole file. Throws DataError when it is missing or cannot be read from the disk, and,
  /// before any byte is read, when it is longer than `most` bytes.
  virtual std::vector<std::byte> read(const std::string& path, std::uint64_t most) = 0;
  /// The names in a folder, sorted; none when there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  /// Makes a folder, and those above it that are missing. Returns false when it was
  /// there.
  virtual bool make_folder(const std::string& path) = 0;
  /// Renames a file, replacing one of the new name, or a folder, where there is none of the new
  /// name. At every instant each name is the old one or the new one.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Exchanges the names of two folders at one instant. Where the file system cannot do that, `to`
  /// is renamed first, and for an instant there is no `to`.
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
