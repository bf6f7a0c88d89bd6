// SPDX-License-Identifier: Apache-2.0
//
// What all ranks do together. What rank 0 does alone is in checkpoint_rank0.cc.
//
//   save   Rank 0 makes step-N.ATTEMPT.tmp. Each rank writes its shard there and syncs it; rank 0
//          writes the weights, too. Rank 0 gets every file's length and hash, writes the manifest,
//          syncs, renames the folder to step-N, syncs that, and tells the others. Then it removes
//          older checkpoints.
//   load   Each rank looks for the newest step that it can verify and tells rank 0. Either all
//          found the same, or each looks again, for no later step than the oldest found.

#include "store/checkpoint.h"

#include <algorithm>
#include <limits>

#include "core/hash.h"
#include "core/plant.h"
#include "store/fold.h"
#include "store/step_names.h"
#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::store {
namespace {

using Bytes = ControlChannel::Bytes;

/// What one rank has written, as it tells rank 0.
struct Written {
  FileSeal seal;
  std::uint64_t step;
};

/// The step that a rank can load, and the hash of its manifest.
struct Named {
  std::uint64_t step;
  std::uint64_t hash;
};

/// Whether all ranks load `step`, or each looks for an older checkpoint, of `step` at most.
struct Decision {
  bool agreed;
  std::uint64_t step;
};

template <typename T>
std::vector<T> values_in(ControlChannel& control, const std::vector<Bytes>& all) {
  std::vector<T> values;
  for (const Bytes& bytes : all)
    values.push_back(control.value_in<T>(bytes, static_cast<int>(values.size())));
  return values;
}

Manifest manifest_of(std::uint64_t step, const std::string& attempt_name,
                     const Origin& origin, const FileSeal& weights,
                     const std::vector<Written>& written) {
  Manifest manifest{step, attempt_name, origin.config, origin.model, weights, {}};
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    if (written[rank].step != step)
      throw ContractError("Rank " + std::to_string(rank) + " saves step " +
                          std::to_string(written[rank].step) +
                          " where rank 0 saves step " + std::to_string(step) + ".");
    manifest.shards.push_back(written[rank].seal);
  }
  return manifest;
}

std::string nothing_found(const std::string& path,
                          const std::vector<std::string>& faults) {
  std::string sentence = "There is no usable checkpoint to resume from in " + path + ": ";
  if (faults.empty()) return sentence + "it has none.";
  for (const std::string& fault : faults) sentence += fault + " ";
  sentence.pop_back();
  return sentence;
}

constexpr std::uint64_t kLatest = std::numeric_limits<std::uint64_t>::max();

Decision decide(const std::vector<Named>& named) {
  const auto oldest = std::ranges::min_element(named, {}, &Named::step);
  const auto all_have = [&](auto field) {
    return std::ranges::all_of(named, [&](const Named& one) {
      return std::invoke(field, one) == std::invoke(field, *oldest);
    });
  };
  const std::uint64_t step = oldest->step;
  if (!all_have(&Named::step) && !TOPKNOT_PLANT(ranks_load_different_steps))
    return {false, step};
  if (all_have(&Named::hash)) return {true, step};
  if (step == 0)
    throw NoCheckpointError("The ranks see different checkpoints of step 0.");
  return {false, step - 1};
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
  ControlChannel(link, operations_).on_rank_0([&] { take_over(); });
  taken_ = true;
}

void CheckpointFolder::clear(Transport& link) {
  if (!taken_) take(link);
  ControlChannel(link, operations_).on_rank_0([&] {
    require_taken();
    for (const std::uint64_t step : steps()) discard(name_of_step(step));
    files_.sync_folder(path_);
  });
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
  ControlChannel control(link, operations_);
  const bool leads = link.rank() == 0;
  std::vector<std::uint64_t> before;
  const std::string unfinished = ControlChannel::text_in(control.from_rank_0([&] {
    const std::string name = begin(step);
    before = steps();
    return ControlChannel::bytes_of_text(name);
  }));

  FileSeal weights;
  control.all_or_none(
      [&] {
        if (leads) weights = write(unfinished, weights_name(), shared);
        const FileSeal seal =
            write(unfinished, shard_name(static_cast<std::uint64_t>(link.rank())), own);
        return ControlChannel::bytes_of(Written{seal, step});
      },
      [&](const std::vector<Bytes>& all) {
        publish(unfinished, manifest_of(step, attempt_, origin, weights,
                                        values_in<Written>(control, all)));
        return Bytes();
      },
      [&] { abandon(); });
  owns_steps_ = true;
  if (leads) prune(before, step);
}

Container CheckpointFolder::read(std::uint64_t step, const std::string& name,
                                 const FileSeal& seal) const {
  const std::string path = path_of(name_of_step(step)) + "/" + name;
  std::vector<std::byte> bytes = files_.read(path, seal.bytes);
  const std::span<const std::byte> whole(bytes);
  if (seal_of(std::span(&whole, 1)) != seal && !TOPKNOT_PLANT(file_hash_not_compared))
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
  ControlChannel control(link, operations_);
  for (Decision decision{false, kLatest}; !decision.agreed;) {
    const Bytes decided = control.all_or_none(
        [&] {
          if (!found || found->manifest.step > decision.step) {
            found.reset();
            found = newest_valid(decision.step, link, passed_over);
          }
          if (!found) throw NoCheckpointError(nothing_found(path_, passed_over));
          return ControlChannel::bytes_of(Named{found->manifest.step, found->hash});
        },
        [&](const std::vector<Bytes>& all) {
          return ControlChannel::bytes_of(decide(values_in<Named>(control, all)));
        });
    decision = control.value_in<Decision>(decided, 0);
  }
  Manifest& manifest = found->manifest;
  if (!model.empty() && manifest.model != model)
    throw ConfigError("The checkpoint " + path_of(name_of_step(manifest.step)) +
                      " is of the model " + manifest.model + ", not of " + model + ".");
  owns_steps_ = true;
  const bool resized = manifest.shards.size() != static_cast<std::size_t>(link.size());
  return {std::move(manifest), std::move(found->shared), std::move(found->own), resized,
          std::move(passed_over)};
}

}  // namespace topknot::store
