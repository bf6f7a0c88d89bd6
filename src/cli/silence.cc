// SPDX-License-Identifier: Apache-2.0
#include "cli/silence.h"

#include <algorithm>
#include <utility>

namespace topknot::cli {
namespace {

constexpr std::chrono::duration<double> kLongest(60);

}  // namespace

Silence::Silence(std::function<bool()> speak, Pace pace)
    : speak_(std::move(speak)),
      pace_(pace),
      patience_(pace.patience),
      thread_([this] { run(); }) {}

Silence::~Silence() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Silence::broken() {
  const std::scoped_lock lock(mutex_);
  spoken_ = Clock::now();
}

void Silence::reset() {
  const std::scoped_lock lock(mutex_);
  if (patience_ == pace_.patience) return;
  patience_ = pace_.patience;
  changed_.notify_one();  // it sleeps too long
}

void Silence::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const auto until = spoken_ + std::chrono::duration_cast<Clock::duration>(patience_);
    if (Clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    lock.unlock();
    const bool said = speak_();
    lock.lock();
    spoken_ = Clock::now();
    if (said) patience_ = std::min(patience_ * pace_.growth, kLongest);
  }
}

}  // namespace topknot::cli
