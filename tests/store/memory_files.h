// SPDX-License-Identifier: Apache-2.0
//
// A file system in memory that can be told to fail, to stop for good, and to lose power.
// It keeps two versions of everything: what a program sees, and what is on the disk.
// fsync of a file copies its bytes from the one to the other, sync_folder a folder's
// names.
//
// What a loss of power leaves is up to the disk, so there is a choice: names and bytes
// that were not synced may each be there or not. Names without bytes are the cruellest.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "store/files.h"
#include "topknot/error.h"

namespace topknot::store::testing {

/// Thrown by every call of a process that has been killed. Not an error: nobody may catch
/// it.
struct Killed {};

class MemoryFiles final : public Files {
 public:
  enum class Fault { none, refuse, kill };
  enum class Loss {
    nothing,
    unsynced_bytes,
    unsynced_names,
    unsynced_folders,  // names in folders of folders; what was removed below stays so
    all_unsynced,
  };

  /// From now on the `call`-th call, counted from 0, is refused once with `reason`, or it
  /// and all after it never happen.
  void arm(Fault fault, std::uint64_t call,
           std::string reason = "No space left on device") {
    const std::scoped_lock lock(mutex_);
    fault_ = fault;
    at_ = call;
    calls_ = 0;
    reason_ = std::move(reason);
  }
  /// Calls since arm().
  std::uint64_t calls() const { return calls_; }
  /// Called before every call, with its name and path, without the lock.
  std::function<void(const std::string& call, const std::string& path)> watch;

  /// The machine starts again with what its disk has.
  void restart(Loss loss) {
    arm(Fault::none, 0);
    root_->lose(loss);
  }

  /// The bytes of a file, to be changed behind everybody's back.
  std::vector<std::byte>& raw(const std::string& path) { return node(path)->bytes; }
  bool exists(const std::string& path) { return find(path) != nullptr; }

  std::unique_ptr<NewFile> create(const std::string& path) override {
    step("Creation", path);
    const std::scoped_lock lock(mutex_);
    auto file = std::make_shared<Node>();
    if (!folder(parent_of(path)).emplace(leaf(path), file).second)
      throw StorageError("Creation of " + path + " was refused: File exists.");
    return std::make_unique<Open>(*this, path, file);
  }

  std::vector<std::byte> read(const std::string& path, std::uint64_t most) override {
    step("Reading", path);
    const std::scoped_lock lock(mutex_);
    const auto found = find(path);
    if (!found || found->is_folder) throw DataError(path + " cannot be read.");
    if (found->bytes.size() > most) throw DataError(path + " is too long.");
    return found->bytes;
  }

  std::vector<std::string> list(const std::string& path) override {
    step("Listing", path);
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    if (const auto found = find(path))
      for (const auto& [name, below] : found->names) names.push_back(name);
    return names;
  }

  bool make_folder(const std::string& path) override {
    step("Making", path);
    const std::scoped_lock lock(mutex_);
    return make(path);
  }

  void rename(const std::string& from, const std::string& to) override {
    step("Renaming", from);
    const std::scoped_lock lock(mutex_);
    const auto moved = node(from);
    if (const auto there = find(to); there && there->is_folder && !there->names.empty())
      throw StorageError("Renaming of " + from + " was refused: Directory not empty.");
    folder(parent_of(from)).erase(leaf(from));
    folder(parent_of(to))[leaf(to)] = moved;
  }

  void exchange(const std::string& from, const std::string& to) override {
    step("Exchange", from);
    const std::scoped_lock lock(mutex_);
    node(from), node(to);
    std::swap(folder(parent_of(from))[leaf(from)], folder(parent_of(to))[leaf(to)]);
  }

  void sync_folder(const std::string& path) override {
    step("Sync", path);
    const std::scoped_lock lock(mutex_);
    const auto found = node(path);
    found->synced_names = found->names;
  }

  void remove_file(const std::string& path) override {
    step("Removal", path);
    const std::scoped_lock lock(mutex_);
    if (node(path)->is_folder)
      throw StorageError("Removal of " + path + " was refused: Is a directory.");
    folder(parent_of(path)).erase(leaf(path));
  }

  void remove_folder(const std::string& path) override {
    step("Removal", path);
    const std::scoped_lock lock(mutex_);
    if (!node(path)->names.empty())
      throw StorageError("Removal of " + path + " was refused: Directory not empty.");
    folder(parent_of(path)).erase(leaf(path));
  }

 private:
  struct Node {
    bool is_folder = false;
    std::vector<std::byte> bytes, synced_bytes;
    std::map<std::string, std::shared_ptr<Node>> names, synced_names;

    bool has_folders() const {
      const auto is = [](const auto& entry) { return entry.second->is_folder; };
      return std::ranges::any_of(names, is) || std::ranges::any_of(synced_names, is);
    }
    void lose(Loss loss) {
      const bool all = loss == Loss::all_unsynced;
      if (all || loss == Loss::unsynced_names ||
          (loss == Loss::unsynced_folders && has_folders()))
        names = synced_names;
      if (all || loss == Loss::unsynced_bytes) bytes = synced_bytes;
      synced_names = names;
      synced_bytes = bytes;
      for (auto& [name, below] : names) below->lose(loss);
    }
  };

  class Open final : public NewFile {
   public:
    Open(MemoryFiles& files, std::string path, std::shared_ptr<Node> node)
        : files_(files), path_(std::move(path)), node_(std::move(node)) {}
    void reserve(std::uint64_t) override { files_.step("Reserving", path_); }
    void write(std::span<const std::byte> bytes) override {
      // One that is cut off has got half way.
      const auto append = [&](std::size_t count) {
        const std::scoped_lock lock(files_.mutex_);
        node_->bytes.insert(node_->bytes.end(), bytes.begin(),
                            bytes.begin() + static_cast<std::ptrdiff_t>(count));
      };
      try {
        files_.step("Writing", path_);
      } catch (...) {
        append(bytes.size() / 2);
        throw;
      }
      append(bytes.size());
    }
    void sync() override {
      files_.step("Sync", path_);
      const std::scoped_lock lock(files_.mutex_);
      node_->synced_bytes = node_->bytes;
    }
    void close() override { files_.step("Closing", path_); }

   private:
    MemoryFiles& files_;
    const std::string path_;
    std::shared_ptr<Node> node_;
  };

  void step(const std::string& call, const std::string& path) {
    // A copy, for it may put another in its own place.
    if (const auto watcher = watch) watcher(call, path);
    const std::scoped_lock lock(mutex_);
    const std::uint64_t now = calls_++;
    if (fault_ == Fault::kill && now >= at_) throw Killed{};
    if (fault_ == Fault::refuse && now == at_)
      throw StorageError(call + " of " + path + " was refused: " + reason_ + ".");
  }

  static std::string leaf(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
  }
  std::shared_ptr<Node> find(const std::string& path) {
    std::shared_ptr<Node> at = root_;
    if (path == ".") return at;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto next = at->names.find(path.substr(begin, end - begin));
      if (next == at->names.end()) return nullptr;
      at = next->second;
      begin = end + 1;
    }
    return at;
  }
  std::shared_ptr<Node> node(const std::string& path) {
    const auto found = find(path);
    if (!found) throw StorageError(path + " was refused: No such file or directory.");
    return found;
  }
  std::map<std::string, std::shared_ptr<Node>>& folder(const std::string& path) {
    return node(path)->names;
  }
  bool make(const std::string& path) {
    if (find(path)) return false;
    const std::string above = parent_of(path);
    // Those above are durable at once, as disk() makes them.
    if (above != "." && make(above)) node(above)->synced_names = node(above)->names;
    auto made = std::make_shared<Node>();
    made->is_folder = true;
    folder(above).emplace(leaf(path), made);
    return true;
  }

  std::mutex mutex_;
  std::shared_ptr<Node> root_ = std::make_shared<Node>();
  Fault fault_ = Fault::none;
  std::uint64_t at_ = 0;
  std::uint64_t calls_ = 0;
  std::string reason_;
};

}  // namespace topknot::store::testing
