// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a supervised run end, in files that each of them leaves in the run's folder:
// a launcher tells its exit code and no more, and the supervisor has to know how many ranks are
// left. When a rank dies, Open MPI sends SIGTERM to the others before it kills them, so the ranks
// without a word are those that died. A rank that found a peer lost names it.
#pragma once

#include <filesystem>
#include <vector>

namespace topknot::cli {

/// This rank's own. From its making on SIGTERM is noted, where listen_for_stop() was called.
class RankEnd {
 public:
  /// Throws StorageError where the file cannot be made.
  RankEnd(const std::filesystem::path& run, int rank);
  /// The rank has ended by itself.
  ~RankEnd();
  RankEnd(const RankEnd&) = delete;
  RankEnd& operator=(const RankEnd&) = delete;

  void name_lost(int peer) const;

 private:
  int file_ = -1;
};

/// Of all ranks.
struct RankEnds {
  int begun = 0;          ///< ranks that were there at all
  std::vector<int> lost;  ///< empty where nobody was left to say a word
};

RankEnds read_rank_ends(const std::filesystem::path& run);
/// Before an attempt and after the last.
void remove_rank_ends(const std::filesystem::path& run);

}  // namespace topknot::cli
