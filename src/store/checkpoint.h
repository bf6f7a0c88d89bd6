// SPDX-License-Identifier: Apache-2.0
//
// A folder of checkpoints that all ranks of a run write and read together. Once the first
// one is there, at every instant a whole one can be read, whoever is killed and whatever
// the disk refuses. docs/checkpoints.md has the protocol.
//
//     CheckpointFolder folder(disk(), "out/checkpoints");
//     folder.take(link);                        // older runs cannot publish now
//     Loaded from = folder.load(link, model);  // to go on
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

/// What a rank keeps for itself falls into two kinds when the number of ranks changes
/// from P to P'. Arrays marked with this are folded, which keeps the mean over the ranks:
///
///     new rank j  <-  (P'/P) * the sum of ranks w with w mod P' == j,    none for j >= P
///
/// They are f32: what belongs to coordinates, such as a residual. Estimates that each rank
/// keeps of the same thing, such as Adam's moments, are averaged instead:
///
///     new rank j  <-  the mean of those ranks w; where there is none, of rank j mod P
///
/// Everything else (thresholds, random states) is dropped. What must survive belongs into
/// the shared container. Throws DataError when `own` has no such array, ContractError when
/// it is not f32.
void mark_folded(Container& own, const std::string& name);
void mark_averaged(Container& own, const std::string& name);
bool is_folded(const Container& own, std::string_view name);
bool is_averaged(const Container& own, std::string_view name);

/// What a checkpoint was made of, in words of the caller's; a line each.
struct Origin {
  std::string config;  ///< a fingerprint of the configuration; only handed back
  std::string model;   ///< a fingerprint of names and shapes; load() insists on it
};

/// What load() found.
struct Loaded {
  Manifest manifest;  ///< step, the ranks' files at the time, origin
  Container shared;   ///< rank 0's, as it was saved
  /// This rank's. With another number of ranks, what was marked is folded or averaged and
  /// nothing else is there; a rank that no residual falls to has none, which is to be read
  /// as zeros.
  Container own;
  bool resized = false;
  /// A sentence for each later step that could not be read on this rank.
  std::vector<std::string> passed_over;
};

class CheckpointFolder {
 public:
  /// Touches nothing yet. `path` must be seen by all ranks. `keep` >= 2 checkpoints stay.
  CheckpointFolder(Files& files, std::string path, int keep = 2);

  /// All ranks together: this run is now the folder's only writer. A run that had it
  /// before fails at its next save. To be called before load() by a run that means to
  /// save; the first save() does it when nobody has. Throws StorageError on all ranks.
  void take(Transport& link);

  /// All ranks together, with the same step. Returns when the checkpoint is on the disk.
  ///
  /// Throws StorageError on all ranks when any of them failed, or when another run has
  /// taken the folder; checkpoints from before are untouched, and the next save may be
  /// tried. Throws ConfigError when the folder has a later step and this object did not
  /// load from it: somebody else's run. A run that did go back replaces what it went back
  /// behind.
  ///
  /// No wait over `link` is longer than the slowest rank takes to write its file: give it
  /// a timeout to match.
  void save(Transport& link, std::uint64_t step, const Container& shared,
            const Container& own, const Origin& origin);

  /// All ranks together: the newest checkpoint that every rank can verify, shared part,
  /// own part and manifest. Ranks may be another number than at the save. An empty
  /// `model` is any.
  ///
  /// Throws NoCheckpointError when there is none, saying what was found; ConfigError when
  /// the newest is of another model; StorageError when reading was refused for a reason
  /// that is not the file's. All ranks throw alike, and nothing is changed on the disk.
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
  void retire(const std::string& name);
  void retire_unfinished(const std::string& name);
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
  std::string attempt_;        // at rank 0, once taken
  bool taken_ = false;         // at every rank
  bool own_line_ = false;      // whether the steps in the folder are this run's own past
  std::uint64_t retired_ = 0;  // how many folders were given a name to die under
};

}  // namespace topknot::store
