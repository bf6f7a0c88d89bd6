// SPDX-License-Identifier: Apache-2.0
//
// A folder of checkpoints that all ranks of a run write and read together. Once the first one is
// written, a complete one can be read at every instant, whichever process is killed and whatever
// the disk refuses. docs/checkpoints.md has the protocol.
//
//     CheckpointFolder folder(disk(), "out/checkpoints");
//     folder.take(link);                       // older runs can no longer publish
//     Loaded from = folder.load(link, model);  // to resume
//     folder.save(link, step, shared, own, {config, model});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/container.h"
#include "store/files.h"
#include "store/manifest.h"
#include "topknot/transport.h"

namespace topknot::store {

/// What becomes of a rank's own arrays when the number of ranks changes from P to P'. Arrays
/// marked by mark_folded() are folded, which keeps the mean over the ranks:
///
///     new rank j  <-  (P'/P) * the sum of ranks w with w mod P' == j,    none for j >= P
///
/// They are f32 and belong to coordinates, as a residual does. Estimates that every rank keeps of
/// the same quantity, such as Adam's moments, are averaged instead, if marked by mark_averaged():
///
///     new rank j  <-  the mean of those ranks w; where there is none, of rank j mod P
///
/// All other arrays (thresholds, random states) are dropped. What must be kept belongs in the
/// shared container. Throws DataError when `own` has no such array, ContractError when it is not
/// f32.
void mark_folded(Container& own, const std::string& name);
void mark_averaged(Container& own, const std::string& name);
bool is_folded(const Container& own, std::string_view name);
bool is_averaged(const Container& own, std::string_view name);

/// What a checkpoint was made from, as the caller describes it; one line each.
struct Origin {
  std::string config;  ///< a fingerprint of the configuration; load() returns it
  std::string model;   ///< a fingerprint of names and shapes; load() compares it
};

/// What load() found.
struct Loaded {
  Manifest manifest;  ///< step, the files of the ranks that saved, origin
  Container shared;   ///< as rank 0 saved it
  /// This rank's. With another number of ranks it has the marked arrays alone, folded or averaged.
  /// A rank to which no residual is folded has none, which is to be read as zeros.
  Container own;
  bool resized = false;
  /// A sentence for each later step that this rank could not read.
  std::vector<std::string> passed_over;
};

class CheckpointFolder {
 public:
  /// Touches nothing yet. `path` must be seen by all ranks. `keep` >= 2 checkpoints stay.
  CheckpointFolder(Files& files, std::string path, int keep = 2);

  /// All ranks together: this run becomes the folder's only writer. A run that was so before
  /// fails at its next save. To be called before load() by a run that will save; otherwise the
  /// first save() calls it. Throws StorageError on all ranks.
  void take(Transport& link);

  /// All ranks together, with the same step. Returns when the checkpoint is on the disk.
  ///
  /// Throws StorageError on all ranks when any of them failed, or when another run has taken the
  /// folder; earlier checkpoints are untouched, and another save may be tried. Throws ConfigError
  /// when the folder has a later step and this object has not loaded from the folder: the
  /// checkpoints are another run's. A run that has resumed from an earlier step replaces the later
  /// ones.
  ///
  /// A wait over `link` takes as long as the slowest rank takes to write its file: its timeout
  /// must be longer.
  void save(Transport& link, std::uint64_t step, const Container& shared,
            const Container& own, const Origin& origin);

  /// All ranks together: the newest checkpoint that every rank can verify, shared part,
  /// own part and manifest. Ranks may be another number than at the save. An empty
  /// `model` is any.
  ///
  /// Throws NoCheckpointError when there is none, and says what was found; ConfigError when the
  /// newest is of another model; StorageError when the file system refused to read. All ranks
  /// throw the same, and nothing is changed on the disk.
  Loaded load(Transport& link, const std::string& model = {});

  /// All ranks together: removes every checkpoint, for a run that starts over.
  void clear(Transport& link);

  /// The steps that are there, newest first, verified or not.
  std::vector<std::uint64_t> steps() const;

 private:
  struct Found {
    Manifest manifest;
    std::uint64_t hash =
        0;  // of the manifest: equal on all ranks that mean the same files
    Container shared;
    Container own;
  };

  std::string path_of(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }

  // What rank 0 does alone, in checkpoint_rank0.cc.
  void take_over();
  void require_taken() const;
  std::string begin(std::uint64_t step);
  void publish(const std::string& unfinished, const Manifest& manifest);
  void prune(const std::vector<std::uint64_t>& before, std::uint64_t step);
  void abandon();
  void discard(const std::string& name);
  void discard_unfinished(const std::string& name);
  void remove_unfinished(bool of_all_runs);

  // What every rank does, in checkpoint.cc.
  FileSeal write(const std::string& unfinished, const std::string& name,
                 const Container& what);
  std::optional<Found> newest_valid(std::uint64_t at_most, const Transport& link,
                                    std::vector<std::string>& passed_over) const;
  Found verify(std::uint64_t step, const Transport& link) const;
  Container read(std::uint64_t step, const std::string& name, const FileSeal& seal) const;
  Container read_own(const Manifest& manifest, const Transport& link) const;

  Files& files_;
  const std::string path_;
  const std::size_t keep_;
  std::string attempt_;           // at rank 0, once taken
  bool taken_ = false;            // at every rank
  std::uint64_t operations_ = 0;  // that the ranks have done together
  bool owns_steps_ = false;       // whether the steps in the folder are of this run
  std::uint64_t discarded_ = 0;   // how many folders were renamed to be removed
};

}  // namespace topknot::store
