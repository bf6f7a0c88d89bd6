// SPDX-License-Identifier: Apache-2.0
//
// What all ranks do together. What only rank 0 does, because only one
// may, is in checkpoint_rank0.cc.
//
//   save   0 makes step-N.ATTEMPT.tmp; each writes its shard there, 0 the weights too,
//          and syncs it; 0 hears of every file's length and hash, writes the manifest,
//          syncs, gives the folder its name, syncs that, and tells; then it prunes.
//   load   each looks for the newest step it can verify; 0 hears of all, and either they
//          mean the same or everyone looks again, no later than the oldest named.

#include "store/checkpoint.h"

#include <algorithm>
#include <limits>

#include "core/hash.h"
#include "store/fold.h"
#include "store/step_names.h"
#include "store/together.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

FileSeal seal_in(const Note& note) { return {note.words[0], note.words[1]}; }

Manifest manifest_of(std::uint64_t step, const std::string& attempt_name,
                     const Origin& origin, const FileSeal& weights,
                     const std::vector<Note>& written) {
  Manifest manifest{step, attempt_name, origin.config, origin.model, weights, {}};
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    if (written[rank].words[2] != step)
      throw ContractError("Rank " + std::to_string(rank) + " saves step " +
                          std::to_string(written[rank].words[2]) +
                          " where rank 0 saves step " + std::to_string(step) + ".");
    manifest.shards.push_back(seal_in(written[rank]));
  }
  return manifest;
}

std::string nothing_found(const std::string& path,
                          const std::vector<std::string>& faults) {
  std::string sentence = "There is no checkpoint to go on from in " + path + ": ";
  if (faults.empty()) return sentence + "it has none.";
  for (const std::string& fault : faults) sentence += fault + " ";
  sentence.pop_back();
  return sentence;
}

constexpr std::uint64_t kLatest = std::numeric_limits<std::uint64_t>::max();

// What everyone is to do after each has named a step and the hash of its manifest: words
// are whether they agree, and the step that is agreed on or not to be passed.
Note decide(const std::vector<Note>& named) {
  Note decision = first_failure(named);
  if (decision.outcome != Outcome::ok) return decision;
  const auto oldest =
      std::ranges::min_element(named, {}, [](const Note& note) { return note.words[0]; });
  const std::uint64_t step = oldest->words[0];
  const auto has = [&](std::size_t word, std::uint64_t value) {
    return std::ranges::all_of(
        named, [&](const Note& note) { return note.words[word] == value; });
  };
  if (!has(0, step)) {
    decision.words = {0, step, 0};
  } else if (has(1, oldest->words[1])) {
    decision.words = {1, step, 0};
  } else if (step == 0) {
    return {Outcome::no_checkpoint, {}, "The ranks see different checkpoints of step 0."};
  } else {
    decision.words = {0, step - 1, 0};
  }
  return decision;
}

}  // namespace

CheckpointFolder::CheckpointFolder(Files& files, std::string path, int keep)
    : files_(files), path_(std::move(path)), keep_(static_cast<std::size_t>(keep)) {
  if (keep < 2)
    throw ConfigError("At least 2 checkpoints must be kept, not " + std::to_string(keep) +
                      ": while one is written the other is all there is.");
}

std::vector<std::uint64_t> CheckpointFolder::steps() const {
  std::vector<std::uint64_t> found;
  for (const std::string& name : files_.list(path_))
    if (const auto step = step_in(name)) found.push_back(*step);
  std::ranges::sort(found, std::greater<>());
  return found;
}

void CheckpointFolder::take(Transport& link) {
  Note note;
  if (link.rank() == 0) note = attempt([&](Note&) { take_over(); });
  broadcast(link, note);
  require_ok(note);
  taken_ = true;
}

void CheckpointFolder::clear(Transport& link) {
  if (!taken_) take(link);
  Note note;
  if (link.rank() == 0)
    note = attempt([&](Note&) {
      require_taken();
      for (const std::uint64_t step : steps()) retire(name_of_step(step));
      files_.sync_folder(path_);
    });
  broadcast(link, note);
  require_ok(note);
}

FileSeal CheckpointFolder::write(const std::string& unfinished, const std::string& name,
                                 const Container& what) {
  std::string header;
  const auto pieces = what.pieces(header);
  write_new(files_, path_of(unfinished) + "/" + name, pieces);
  return seal_of(pieces);
}

void CheckpointFolder::save(Transport& link, std::uint64_t step, const Container& shared,
                            const Container& own, const Origin& origin) {
  if (!taken_) take(link);
  const bool leads = link.rank() == 0;
  std::vector<std::uint64_t> before;
  Note start;
  if (leads)
    start = attempt([&](Note& note) {
      note.text = begin(step);
      before = steps();
    });
  broadcast(link, start);
  require_ok(start);
  const std::string& unfinished = start.text;

  FileSeal weights;
  const Note mine = attempt([&](Note& note) {
    if (leads) weights = write(unfinished, weights_name(), shared);
    const FileSeal seal =
        write(unfinished, shard_name(static_cast<std::uint64_t>(link.rank())), own);
    note.words = {seal.bytes, seal.hash, step};
  });

  const std::vector<Note> written = gather(link, mine);
  Note end = first_failure(written);
  if (leads && end.outcome == Outcome::ok)
    end = attempt([&](Note&) {
      publish(unfinished, manifest_of(step, attempt_, origin, weights, written));
    });
  if (leads && end.outcome != Outcome::ok) abandon();
  broadcast(link, end);
  require_ok(end);
  own_line_ = true;
  if (leads) prune(before, step);
}

Container CheckpointFolder::read(std::uint64_t step, const std::string& name,
                                 const FileSeal& seal) const {
  const std::string path = path_of(name_of_step(step)) + "/" + name;
  std::vector<std::byte> bytes = files_.read(path, seal.bytes);
  const std::span<const std::byte> whole(bytes);
  if (seal_of(std::span(&whole, 1)) != seal)
    throw DataError(path + " is not the file that its manifest was written for.");
  return Container::parse(std::move(bytes), path);
}

Container CheckpointFolder::read_own(const Manifest& manifest,
                                     const Transport& link) const {
  const auto rank = static_cast<std::uint64_t>(link.rank());
  const auto ranks = static_cast<std::uint64_t>(link.size());
  const std::uint64_t saved = manifest.shards.size();
  if (saved == ranks) return read(manifest.step, shard_name(rank), manifest.shards[rank]);
  Fold fold;
  for (std::uint64_t old = rank; old < saved; old += ranks)
    fold.add(read(manifest.step, shard_name(old), manifest.shards[old]), shard_name(old));
  if (rank >= saved) {
    const std::uint64_t old = rank % saved;
    fold.add(read(manifest.step, shard_name(old), manifest.shards[old]), shard_name(old),
             Fold::Of::averaged);
  }
  return fold.take(static_cast<double>(ranks) / static_cast<double>(saved));
}

CheckpointFolder::Found CheckpointFolder::verify(std::uint64_t step,
                                                 const Transport& link) const {
  const std::string path = path_of(name_of_step(step)) + "/" + kManifestName;
  const std::vector<std::byte> text = files_.read(path, Manifest::kMostBytes);
  Found found;
  found.manifest = Manifest::parse(text, path);
  found.hash = core::hash(text);
  if (found.manifest.step != step)
    throw DataError(path + " is that of step " + std::to_string(found.manifest.step) +
                    ".");
  found.own = read_own(found.manifest, link);
  found.shared = read(step, weights_name(), found.manifest.weights);
  return found;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest_valid(
    std::uint64_t at_most, const Transport& link,
    std::vector<std::string>& passed_over) const {
  for (const std::uint64_t step : steps()) {
    if (step > at_most) continue;
    try {
      return verify(step, link);
    } catch (const DataError& error) {
      passed_over.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

Loaded CheckpointFolder::load(Transport& link, const std::string& model) {
  std::optional<Found> found;
  std::vector<std::string> passed_over;
  Note decision;
  for (std::uint64_t at_most = kLatest; decision.words[0] == 0;
       at_most = decision.words[1]) {
    const Note mine = attempt([&](Note& note) {
      if (!found || found->manifest.step > at_most) {
        found.reset();
        found = newest_valid(at_most, link, passed_over);
      }
      if (!found) throw NoCheckpointError(nothing_found(path_, passed_over));
      note.words = {found->manifest.step, found->hash, 0};
    });
    const std::vector<Note> named = gather(link, mine);
    if (link.rank() == 0) decision = decide(named);
    broadcast(link, decision);
    require_ok(decision);
  }
  Manifest& manifest = found->manifest;
  if (!model.empty() && manifest.model != model)
    throw ConfigError("The checkpoint " + path_of(name_of_step(manifest.step)) +
                      " is of the model " + manifest.model + ", not of " + model + ".");
  own_line_ = true;
  const bool resized = manifest.shards.size() != static_cast<std::size_t>(link.size());
  return {std::move(manifest), std::move(found->shared), std::move(found->own), resized,
          std::move(passed_over)};
}

}  // namespace topknot::store
