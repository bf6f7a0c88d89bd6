// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_ends.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "cli/stop_signal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

fs::path folder_in(const fs::path& run) { return run / "ranks"; }

void add_line(int file, const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
}

}  // namespace

RankEnd::RankEnd(const fs::path& run, int rank) {
  const fs::path path = folder_in(run) / std::to_string(rank);
  std::error_code none;
  fs::create_directories(path.parent_path(), none);
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw StorageError("The file " + path.string() +
                       " cannot be made: " + std::strerror(errno) + ".");
  note_stop_in(file_);
}

RankEnd::~RankEnd() {
  note_stop_in(-1);
  add_line(file_, "ended\n");
  close(file_);
}

void RankEnd::name_lost(int peer) const {
  add_line(file_, "lost " + std::to_string(peer) + "\n");
}

RankEnds read_rank_ends(const fs::path& run) {
  RankEnds ends;
  std::set<int> lost;
  int spoke = 0;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_in(run), none)) {
    ++ends.begun;
    std::ifstream stream(entry.path());
    bool silent = true;
    for (std::string word; stream >> word; silent = false)
      if (int peer = 0; word == "lost" && stream >> peer) lost.insert(peer);
    if (silent) lost.insert(std::atoi(entry.path().filename().c_str()));
    if (!silent) ++spoke;
  }
  if (spoke > 0) ends.lost.assign(lost.begin(), lost.end());
  return ends;
}

void remove_rank_ends(const fs::path& run) {
  std::error_code none;
  fs::remove_all(folder_in(run), none);
}

}  // namespace topknot::cli
