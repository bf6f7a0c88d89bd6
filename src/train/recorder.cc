// SPDX-License-Identifier: Apache-2.0
#include "train/recorder.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "store/gradients.h"
#include "store/together.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

/// Writes the keys that describe the run into the file's metadata.
void describe(const Job& job, int ranks, store::Container& file) {
  for (const char* key : {"name", "model", "data", "batch", "accumulate", "seed",
                          "scheme", "density", "optimizer", "lr"})
    file.metadata[key] = get(job, key);
  file.metadata["workers"] = std::to_string(ranks);
}

}  // namespace

Recorder::Recorder(Transport& link, int channel, const Job& job,
                   const RecordOptions& options)
    : options_(options), ranks_(options.ranks) {
  if (options.file.empty()) return;
  channel_ = link.channel(channel);
  if (ranks_.empty()) {
    ranks_.resize(static_cast<std::size_t>(link.size()));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  std::ranges::sort(ranks_);
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
  for (const int rank : ranks_)
    if (rank < 0 || rank >= link.size())
      throw ConfigError("There is no rank " + std::to_string(rank) +
                        " to record the gradients of: the last of " +
                        std::to_string(link.size()) + " is " +
                        std::to_string(link.size() - 1) + ".");
  describe(job, link.size(), taken_);
}

void Recorder::plan(std::uint64_t first, std::uint64_t end) {
  if (!channel_ || first >= end) return;
  steps_ = {options_.steps.begin(), options_.steps.end()};
  if (steps_.empty()) steps_ = {first, first + (end - first) / 2, end - 1};
  if (*steps_.rbegin() >= end)
    throw ConfigError("Step " + std::to_string(*steps_.rbegin()) +
                      " cannot be recorded: counted from 0, the run's last is " +
                      std::to_string(end - 1) + ".");
  steps_.erase(steps_.begin(), steps_.lower_bound(first));
  if (steps_.empty())
    throw ConfigError("No step is left to record: the run goes on from step " +
                      std::to_string(first) + " and all that were chosen come before.");
}

void Recorder::take(std::uint64_t step, Replica& replica) {
  std::string order;
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (!replica.gradient(i).empty()) order += replica.tensor(i).name + "\n";
  taken_.metadata[store::kParameterOrder] = order;
  // Parameter by parameter, so that no message is larger than one parameter of one rank.
  for (std::size_t i = 0; i < replica.size(); ++i)
    for (const int rank : ranks_) {
      if (replica.gradient(i).empty()) continue;
      std::vector<float> values = bring(rank, replica.gradient(i));
      if (channel_->rank() != 0) continue;
      const TensorSlot& tensor = replica.tensor(i);
      taken_.keep(
          store::gradient_name(step, static_cast<std::uint64_t>(rank), tensor.name),
          std::move(values), tensor.shape);
    }
  unwritten_ = true;
  ++count_;
  steps_.erase(step);
  if (steps_.empty()) write();
}

std::vector<float> Recorder::bring(int rank, std::span<const float> mine) {
  if (channel_->rank() == rank && rank != 0)
    channel_->wait(channel_->send(0, std::as_bytes(mine)));
  if (channel_->rank() != 0) return {};
  if (rank == 0) return {mine.begin(), mine.end()};
  std::vector<std::byte> bytes;
  channel_->wait(channel_->recv(rank, bytes, mine.size_bytes()));
  if (bytes.size() != mine.size_bytes())
    throw LinkError(rank, "Rank " + std::to_string(rank) + " sent " +
                              std::to_string(bytes.size()) + " bytes of a gradient of " +
                              std::to_string(mine.size_bytes()) + ".");
  std::vector<float> values(mine.size());
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::uint64_t Recorder::finish() {
  if (unwritten_) write();
  return count_;
}

void Recorder::write() {
  store::Note note = store::attempt([&](store::Note&) {
    if (channel_->rank() == 0)
      store::write_gradients(store::disk(), options_.file.string(), taken_);
  });
  store::broadcast(*channel_, note);
  store::require_ok(note);
  unwritten_ = false;
  taken_ = {};
}

}  // namespace topknot::train
