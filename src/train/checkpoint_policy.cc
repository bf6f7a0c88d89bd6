// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_policy.h"

#include <utility>

#include "topknot/error.h"

namespace topknot::train {
namespace {

constexpr int kMostFailures = 3;  // in a row

std::string config_of(const Job& job) {
  std::string text;
  for (const Key& key : keys()) text += get(job, key.name) + " ";
  return text;
}

}  // namespace

CheckpointPolicy::CheckpointPolicy(const Job& job, const TrainOptions& options,
                                   Transport& link, int channel)
    : job_(job), resumes_(options.resume) {
  if (options.checkpoints.empty()) return;
  folder_.emplace(store::disk(), options.checkpoints.string());
  link_ = link.channel(channel);
  link_->allow(job.checkpoint_timeout);
  saves_.emplace(*folder_, *link_);
}

void CheckpointPolicy::resume(Live live, std::vector<std::string>& notices) {
  if (!folder_) return;
  folder_->take(*link_);
  if (!resumes_) return;
  const store::Loaded from = folder_->load(*link_, live.replica.fingerprint());
  restore(from, live);
  for (const std::string& sentence : from.passed_over) notices.push_back(sentence);
  if (from.resized)
    notices.push_back("the checkpoint was made by " +
                      std::to_string(from.manifest.shards.size()) +
                      " workers: their residuals were divided among the ranks anew, with "
                      "the same mean.");
}

bool CheckpointPolicy::is_due(std::uint64_t step, bool epoch_ended, bool run_ends) {
  const std::uint64_t last = std::exchange(asked_at_, step);
  if (!folder_) return false;
  const auto every = static_cast<std::uint64_t>(job_.checkpoint_every);
  return run_ends || (every > 0 ? step / every > last / every : epoch_ended);
}

void CheckpointPolicy::save(Live live, Observer& observer) {
  finish(observer);
  auto [shared, own] = snapshot(live);
  if (!job_.auto_choice.empty()) shared.metadata[kAutoChoice] = job_.auto_choice;
  saves_->start(live.position.step, std::move(shared), std::move(own),
                {config_of(job_), live.replica.fingerprint()});
}

void CheckpointPolicy::finish(Observer& observer, bool must_succeed) {
  if (!saves_ || !saves_->is_under_way()) return;
  try {
    const auto [step, seconds] = saves_->finish();
    failures_ = 0;
    observer.on_checkpoint(step, seconds);
  } catch (const StorageError& error) {
    if (must_succeed || ++failures_ == kMostFailures) throw;
    observer.on_checkpoint_failed(error.what());
  }
}

}  // namespace topknot::train
