// SPDX-License-Identifier: Apache-2.0
#include "train/recorder.h"

#include <algorithm>
#include <numeric>

#include "store/gradients.h"
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
  control_.emplace(link, channel);
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
  if (!control_ || first >= end) return;
  steps_ = {options_.steps.begin(), options_.steps.end()};
  if (steps_.empty()) steps_ = {first, first + (end - first) / 2, end - 1};
  if (*steps_.rbegin() >= end)
    throw ConfigError("Step " + std::to_string(*steps_.rbegin()) +
                      " cannot be recorded: counted from 0, the run's last is " +
                      std::to_string(end - 1) + ".");
  steps_.erase(steps_.begin(), steps_.lower_bound(first));
  if (steps_.empty())
    throw ConfigError("No step is left to record: the run resumes at step " +
                      std::to_string(first) + " and all that were chosen come before.");
}

void Recorder::take(std::uint64_t step, Replica& replica) {
  std::string order;
  for (std::size_t i = 0; i < replica.size(); ++i)
    if (!replica.gradient(i).empty()) order += replica.tensor(i).name + "\n";
  taken_.metadata[store::kParameterOrder] = order;
  // Parameter by parameter, so that no message is larger than one parameter of one rank.
  for (std::size_t i = 0; i < replica.size(); ++i) {
    const std::span<const float> gradient = replica.gradient(i);
    if (gradient.empty()) continue;
    std::vector<std::vector<float>> all = gather(gradient);
    if (control_->rank() != 0) continue;
    const TensorSlot& tensor = replica.tensor(i);
    for (const int rank : ranks_)
      taken_.keep(
          store::gradient_name(step, static_cast<std::uint64_t>(rank), tensor.name),
          std::move(all[static_cast<std::size_t>(rank)]), tensor.shape);
  }
  unwritten_ = true;
  ++count_;
  steps_.erase(step);
  if (steps_.empty()) write();
}

std::vector<std::vector<float>> Recorder::gather(std::span<const float> mine) {
  std::vector<float> sent;
  if (std::ranges::binary_search(ranks_, control_->rank()))
    sent.assign(mine.begin(), mine.end());
  std::vector<std::vector<float>> all = control_->gather_at_0(sent, mine.size());
  for (const int rank : ranks_) {
    if (control_->rank() != 0) break;
    const std::size_t bytes = all[static_cast<std::size_t>(rank)].size() * sizeof(float);
    if (bytes != mine.size_bytes())
      throw LinkError(rank, "Rank " + std::to_string(rank) + " sent " +
                                std::to_string(bytes) + " bytes of a gradient of " +
                                std::to_string(mine.size_bytes()) + ".");
  }
  return all;
}

std::uint64_t Recorder::finish() {
  if (unwritten_) write();
  return count_;
}

void Recorder::write() {
  control_->on_rank_0(
      [&] { store::write_gradients(store::disk(), options_.file.string(), taken_); });
  unwritten_ = false;
  taken_ = {};
}

}  // namespace topknot::train
