// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline.h"

#include <utility>

#include "topknot/error.h"

namespace topknot::engine {

Pipeline::Pipeline() : thread_([this] { run(); }) {}

Pipeline::~Pipeline() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    dropped.swap(tasks_);
  }
  work_.notify_one();
  dropped.clear();
  thread_.join();
}

void Pipeline::submit(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (error_ || closing_) return;
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
}

void Pipeline::drain() {
  if (std::this_thread::get_id() == thread_.get_id())
    throw ContractError("A task of the pipeline cannot wait for the pipeline.");
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return tasks_.empty() && !busy_; });
  if (error_) std::rethrow_exception(error_);
}

bool Pipeline::idle() {
  const std::scoped_lock lock(mutex_);
  return tasks_.empty() && !busy_;
}

void Pipeline::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    if (closing_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    task = nullptr;  // frees what it holds before drain() returns
    std::deque<std::function<void()>> dropped;
    lock.lock();
    if (error) {
      error_ = std::move(error);
      dropped.swap(tasks_);
    }
    busy_ = false;
    if (tasks_.empty()) idle_.notify_all();
    if (dropped.empty()) continue;
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
}

}  // namespace topknot::engine
