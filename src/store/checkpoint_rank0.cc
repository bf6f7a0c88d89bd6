// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 does alone: all that changes the names in the folder.
//
// A run takes the folder by writing its name into the lock, and then renames every unfinished
// checkpoint of other runs, so that they cannot publish it. A run publishes by reading the lock and
// then renaming its unfinished folder. So an older run, however long it slept between the two,
// finds that the lock has changed or that its folder is not there.
//
// Nothing is removed before a sync has made the names that replace it durable, and nothing is
// removed under a name that a reader looks for.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <span>

#include "core/plant.h"
#include "store/checkpoint.h"
#include "store/step_names.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr std::uint64_t kMostLockBytes = 1024;

// Host, process and the time in nanoseconds, in characters that a file name may have.
std::string new_attempt() {
  std::array<char, 65> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string name;
  for (const char* c = host.data(); *c != '\0'; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) != 0 ? *c : '_';
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return name + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(std::chrono::nanoseconds(now).count());
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A failure here does no harm: the next save tries again.
template <typename Task>
void if_possible(Task&& task) {
  try {
    task();
  } catch (const StorageError&) {
  } catch (const DataError&) {
  }
}

}  // namespace

void CheckpointFolder::take_over() {
  if (files_.make_folder(path_)) files_.sync_folder(parent_of(path_));
  attempt_ = new_attempt();
  const std::string text = attempt_ + "\n";
  const std::string written = path_of(kLockName) + "." + attempt_ + ".tmp";
  const std::span<const std::byte> piece = bytes_of(text);
  write_new(files_, written, std::span(&piece, 1));
  files_.rename(written, path_of(kLockName));
  files_.sync_folder(path_);
  remove_unfinished(true);
}

void CheckpointFolder::require_taken() const {
  const std::string expected = attempt_ + "\n";
  const std::vector<std::byte> found = files_.read(path_of(kLockName), kMostLockBytes);
  if (std::ranges::equal(found, bytes_of(expected)) || TOPKNOT_PLANT(lock_not_read))
    return;
  std::string other;
  for (const std::byte b : found) other += static_cast<char>(b);
  if (other.ends_with('\n')) other.pop_back();
  throw StorageError("The checkpoints in " + path_ + " have been taken over by the run " +
                     other + ": this run, " + attempt_ + ", can save no more there.");
}

void CheckpointFolder::remove_unfinished(bool of_all_runs) {
  std::vector<std::string> found;
  for (const std::string& name : files_.list(path_))
    if (is_unfinished(name) && (of_all_runs || name.starts_with(kRemovedPrefix) ||
                                name.find(attempt_) != std::string::npos))
      found.push_back(name);
  if (found.empty()) return;
  files_.sync_folder(path_);
  for (const std::string& name : found) {
    if (name.starts_with("lock")) {
      if_possible([&] { files_.remove_file(path_of(name)); });
    } else if (name.starts_with(kRemovedPrefix)) {
      if_possible([&] { remove_with_files(files_, path_of(name)); });
    } else {
      discard_unfinished(name);
    }
  }
}

// An older run may be publishing it at this moment: then the name is no longer there, which is no
// error. Where the name is still there, the error is thrown: the older run could still publish.
void CheckpointFolder::discard_unfinished(const std::string& name) {
  try {
    discard(name);
  } catch (const StorageError&) {
    const std::vector<std::string> names = files_.list(path_);
    if (std::ranges::find(names, name) != names.end()) throw;
  }
}

void CheckpointFolder::discard(const std::string& name) {
  const std::string removed =
      kRemovedPrefix + attempt_ + "-" + std::to_string(discarded_++) + ".tmp";
  files_.rename(path_of(name), path_of(removed));
  if_possible([&] { remove_with_files(files_, path_of(removed)); });
}

std::string CheckpointFolder::begin(std::uint64_t step) {
  require_taken();
  const std::vector<std::uint64_t> there = steps();
  if (!owns_steps_ && !there.empty() && there.front() >= step)
    throw ConfigError("The folder " + path_ + " has a checkpoint of step " +
                      std::to_string(there.front()) + ", and this run is at step " +
                      std::to_string(step) +
                      " without having resumed from it: resume from it, remove it, or "
                      "choose another folder.");
  remove_unfinished(false);
  std::string unfinished = name_of_step(step) + "." + attempt_ + ".tmp";
  if (!files_.make_folder(path_of(unfinished)))
    throw StorageError(path_of(unfinished) +
                       " is left over from a save that failed and cannot be removed.");
  return unfinished;
}

// Where the failure came after the exchange of names, the unfinished name is that of the
// checkpoint which was replaced: remove_unfinished() syncs before it removes.
void CheckpointFolder::abandon() {
  if_possible([&] { remove_unfinished(false); });
}

void CheckpointFolder::publish(const std::string& unfinished, const Manifest& manifest) {
  const std::string folder = path_of(unfinished);
  const std::string text = manifest.str();
  const std::span<const std::byte> piece = bytes_of(text);
  write_new(files_, folder + "/" + kManifestName, std::span(&piece, 1));
  files_.sync_folder(folder);
  const std::vector<std::uint64_t> there = steps();
  require_taken();
  const std::string name = path_of(name_of_step(manifest.step));
  if (std::ranges::find(there, manifest.step) == there.end()) {
    files_.rename(folder, name);
  } else {
    files_.exchange(folder, name);
  }
  if (!TOPKNOT_PLANT(folder_not_synced)) files_.sync_folder(path_);
}

void CheckpointFolder::prune(const std::vector<std::uint64_t>& before,
                             std::uint64_t step) {
  if_possible([&] {
    require_taken();
    remove_unfinished(false);
    std::size_t kept = 1;  // the one just written
    for (const std::uint64_t other : before)
      if (other > step || (other < step && ++kept > keep_)) discard(name_of_step(other));
  });
}

}  // namespace topknot::store
