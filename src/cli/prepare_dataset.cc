// SPDX-License-Identifier: Apache-2.0
#include "cli/prepare_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <system_error>
#include <vector>

#include "cli/subprocess.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;
using data::Archive;
using data::Dataset;
using data::Packing;

/// A temporary folder for files that are not checked yet. The destructor removes it.
class StagingFolder {
 public:
  explicit StagingFolder(const fs::path& beside)
      : path_(beside / (".topknot-" + std::to_string(getpid()))) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error)
      throw StorageError(path_.string() + ": cannot be made (" + error.message() + ").");
  }
  ~StagingFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void fetch(const Archive& archive, const fs::path& file, const PrepareOptions& options) {
  options.say("Fetching " + std::string(archive.url));
  const bool watched = isatty(STDERR_FILENO) != 0;
  const SubprocessResult done =
      run_subprocess({"curl", "--fail", "--location", "--proto", "=https,http", "--retry",
                      "3", watched ? "--progress-bar" : "--silent", "--show-error",
                      "--output", file.string(), "--", std::string(archive.url)});
  if (done.exit_code != 0)
    throw DataError(std::string(archive.url) + " could not be fetched (curl ended with " +
                    std::to_string(done.exit_code) +
                    "); get it by other means and give it with --from FILE.");
}

std::string hash_of(const fs::path& file, const std::string& kind) {
  const SubprocessResult done = run_subprocess({kind + "sum", "--", file.string()});
  std::string hash = done.output.substr(0, done.output.find(' '));
  if (hash.starts_with('\\')) hash.erase(0, 1);  // marks a file name that was escaped
  if (done.exit_code != 0 || hash.empty())
    throw DataError(file.string() + ": " + kind + "sum could not read it.");
  return hash;
}

void check_hash(const Archive& archive, const fs::path& file,
                const PrepareOptions& options) {
  const std::string wanted(archive.hash.substr(archive.hash.find(':') + 1));
  const std::string kind(archive.hash.substr(0, archive.hash.find(':')));
  const std::string got = hash_of(file, kind);
  if (got == wanted) return;
  const std::string sentence = file.filename().string() + " has the " + kind + " " + got +
                               " and the published " + std::string(archive.name) +
                               " has " + wanted;
  if (!options.from)
    throw DataError(sentence + "; it was damaged on the way or changed since.");
  if (!options.unchecked)
    throw DataError(sentence + "; --unchecked takes it all the same.");
  options.say(sentence + "; taken unchecked.");
}

/// Throws DataError unless an archive of the set may contain `member`.
void check_member(const Dataset& set, const std::string& member) {
  const bool expected =
      std::any_of(set.members.begin(), set.members.end(), [&](std::string_view known) {
        return known.ends_with('/') ? member.starts_with(known) : member == known;
      });
  const bool climbs = ("/" + member + "/").find("/../") != std::string::npos;
  if (expected && !climbs) return;
  const std::string sentence =
      "The archive has " + member + " in it, which is not of " + std::string(set.name);
  for (const data::OtherVersion& other : set.other_versions)
    if (member.starts_with(other.prefix))
      throw DataError(sentence + ": " + std::string(other.reason));
  throw DataError(sentence + "; nothing was unpacked.");
}

void check_members(const Dataset& set, const std::vector<std::string>& members) {
  for (const std::string& member : members) check_member(set, member);
  for (const std::string_view known : set.members)
    if (!known.ends_with('/') &&
        std::find(members.begin(), members.end(), known) == members.end())
      throw DataError("The archive lacks " + std::string(known) + ".");
}

/// Throws DataError at anything but files and folders: a link could lead out of the folder.
void check_kinds(const std::vector<std::string>& listing) {
  for (const std::string& line : listing)
    if (!line.starts_with('-') && !line.starts_with('d'))
      throw DataError("The archive has what is neither file nor folder in it: " + line);
}

SubprocessResult run_on_archive(const std::vector<std::string>& words,
                                const fs::path& file) {
  SubprocessResult done = run_subprocess(words);
  if (done.exit_code != 0)
    throw DataError(file.string() + ": " + words[0] +
                    " cannot unpack it (it ended with " + std::to_string(done.exit_code) +
                    ").");
  return done;
}

void unpack(const Dataset& set, const fs::path& file, const fs::path& into) {
  const std::string name = fs::absolute(file).string();
  if (set.packing == Packing::tar) {
    check_members(set, lines_of(run_on_archive({"tar", "-tzf", name}, file).output));
    check_kinds(lines_of(run_on_archive({"tar", "-tvzf", name}, file).output));
    run_on_archive({"tar", "-xzf", name, "-C", into.string(), "--no-same-owner",
                    "--no-same-permissions"},
                   file);
  } else {
    check_members(set, lines_of(run_on_archive({"unzip", "-Z1", name}, file).output));
    run_on_archive({"unzip", "-q", "-o", name, "-d", into.string()}, file);
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(into))
    if (entry.is_symlink() || !(entry.is_regular_file() || entry.is_directory()))
      throw DataError("The archive has what is neither file nor folder in it: " +
                      entry.path().filename().string());
}

/// The archive as a file with a checked hash, either fetched or the user's own.
fs::path obtain(const Dataset& set, const Archive& archive, const StagingFolder& staging,
                const PrepareOptions& options) {
  fs::path file = staging.path() / archive.name;
  if (!options.from) {
    fetch(archive, file, options);
  } else {
    const bool folder = fs::is_directory(*options.from);
    if (folder && set.packing != Packing::files)
      throw DataError(options.from->string() + " is a folder; " + std::string(set.name) +
                      " is prepared from " + std::string(archive.name) + ".");
    file = folder ? *options.from / archive.name : *options.from;
    if (!fs::is_regular_file(file))
      throw DataError(file.string() + ": there is no such file.");
  }
  check_hash(archive, file, options);
  return file;
}

void take_copy(const fs::path& file, const fs::path& to) {
  std::error_code error;
  fs::copy_file(file, to, error);
  if (error)
    throw StorageError(to.string() + ": cannot be written (" + error.message() + ").");
}

void move_into_place(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw StorageError(to.string() + ": cannot be made (" + error.message() + ").");
}

Prepared what_is_there(const Dataset& set, const fs::path& place) {
  try {
    return {place, data::summarize(set, place), true};
  } catch (const DataError& error) {
    throw DataError(std::string(error.what()) + " Remove " + place.string() +
                    " to prepare it anew.");
  }
}

}  // namespace

Prepared prepare_dataset(const Dataset& set, const PrepareOptions& options) {
  if (set.archives.empty()) {
    const fs::path there = data::find_folder(set, options.into);
    return {there, data::summarize(set, there), true};
  }
  // An unpacked folder is taken as it is.
  const fs::path place = options.into / set.folder;
  if (options.from && fs::is_directory(*options.from) && set.packing != Packing::files &&
      data::has_set(set, *options.from))
    return what_is_there(set, data::find_folder(set, *options.from));
  if (data::has_set(set, options.into))
    return what_is_there(set, data::find_folder(set, options.into));
  if (fs::exists(place)) return what_is_there(set, place);
  if (options.from && set.archives.size() > 1 && !fs::is_directory(*options.from))
    throw DataError(std::string(set.name) + " is " + std::to_string(set.archives.size()) +
                    " files; give the folder that has them with --from.");
  const StagingFolder staging(options.into);
  const fs::path unpacked = staging.path() / "unpacked";
  const fs::path made = unpacked / set.folder;
  fs::create_directories(set.packing == Packing::files ? made : unpacked);
  for (const Archive& archive : set.archives) {
    const fs::path file = obtain(set, archive, staging, options);
    if (set.packing == Packing::files)
      take_copy(file, made / archive.name);
    else
      unpack(set, file, unpacked);
  }
  options.say("Reading all of it once");
  Prepared prepared{place, data::summarize(set, made), false};
  move_into_place(made, place);
  return prepared;
}

}  // namespace topknot::cli
