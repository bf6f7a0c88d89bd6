// SPDX-License-Identifier: Apache-2.0
//
// What transports/c10d/ uses of torch, without torch: tensors over memory of the caller's, and
// Gloo's sends and receives among ranks that are threads. It is as strict as Gloo allows it to
// be: a send is done only when a receive has taken its bytes, and nothing is copied before, so
// that memory which is let go of too early shows under a sanitizer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace c10 {

template <typename T>
using intrusive_ptr = std::shared_ptr<T>;

enum class DeviceType { CPU };

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  const char* what_without_backtrace() const { return what(); }
};

}  // namespace c10

namespace at {

enum Kind : std::size_t { kByte = 1, kFloat = sizeof(float) };

struct Tensor {
  std::span<std::byte> bytes;
};

inline Tensor from_blob(void* data, std::initializer_list<std::int64_t> sizes,
                        Kind kind) {
  const auto size = static_cast<std::size_t>(*sizes.begin());
  return {{static_cast<std::byte*>(data), size * kind}};
}

}  // namespace at

namespace c10d {

class Net;

/// A send, a receive, or a sum under way. Once it is destroyed its memory is not used any more.
class Work {
 public:
  Work(std::shared_ptr<Net> net, int rank, int peer, std::span<std::byte> bytes)
      : net_(std::move(net)), rank_(rank), peer_(peer), bytes_(bytes) {}
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  /// Whether it was done and no abort() came before. Throws when the peer is lost.
  bool wait(std::chrono::milliseconds timeout);
  /// Ends one wait for this, now or the next.
  void abort();

 private:
  friend class Net;

  const std::shared_ptr<Net> net_;
  const int rank_;
  const int peer_;
  const std::span<std::byte> bytes_;
  bool done_ = false;
  bool aborted_ = false;
};

/// All connections. Messages of one sender, receiver and tag meet their receives in order.
class Net : public std::enable_shared_from_this<Net> {
 public:
  explicit Net(int ranks) : ranks_(ranks) {}

  int size() const { return ranks_; }

  std::shared_ptr<Work> send(int from, int to, int tag, std::span<std::byte> bytes) {
    return post({from, to, tag}, from, to, bytes, &Queue::sends);
  }

  std::shared_ptr<Work> receive(int from, int to, int tag, std::span<std::byte> bytes) {
    return post({from, to, tag}, to, from, bytes, &Queue::receives);
  }

  /// Adds in rank order once all ranks are there.
  std::shared_ptr<Work> add_up(int rank, std::span<std::byte> floats) {
    auto work =
        std::make_shared<Work>(shared_from_this(), rank, (rank + 1) % ranks_, floats);
    const std::scoped_lock lock(mutex_);
    sums_[rank] = work.get();
    if (static_cast<int>(sums_.size()) == ranks_) finish_sum();
    return work;
  }

  /// The connections of `rank` break, as when its process ends.
  void lose(int rank) {
    const std::scoped_lock lock(mutex_);
    lost_.insert(rank);
    changed_.notify_all();
  }

 private:
  friend class Work;
  struct Queue {
    std::deque<Work*> sends;
    std::deque<Work*> receives;
  };

  std::shared_ptr<Work> post(std::tuple<int, int, int> key, int rank, int peer,
                             std::span<std::byte> bytes, std::deque<Work*> Queue::*side) {
    auto work = std::make_shared<Work>(shared_from_this(), rank, peer, bytes);
    const std::scoped_lock lock(mutex_);
    if (is_broken(rank, peer)) throw c10::Error("[net.h:1] Connection closed by peer.");
    Queue& queue = queues_[key];
    (queue.*side).push_back(work.get());
    while (!queue.sends.empty() && !queue.receives.empty()) {
      deliver(*queue.sends.front(), *queue.receives.front());
      queue.sends.pop_front();
      queue.receives.pop_front();
    }
    changed_.notify_all();
    return work;
  }

  // Like the kernel, from the first byte to the last, while others may look at the memory.
  static void copy(std::span<const std::byte> bytes, std::byte* to) {
    std::size_t i = 0;
    for (std::uint64_t word = 0; bytes.size() - i >= sizeof word; i += sizeof word) {
      std::memcpy(&word, bytes.data() + i, sizeof word);
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to + i))
          .store(word, std::memory_order_relaxed);
    }
    for (; i < bytes.size(); ++i)
      std::atomic_ref(to[i]).store(bytes[i], std::memory_order_relaxed);
  }

  static void deliver(Work& from, Work& into) {
    if (from.bytes_.size() > into.bytes_.size()) std::abort();  // as Gloo does
    copy(from.bytes_, into.bytes_.data());
    from.done_ = into.done_ = true;
  }

  bool is_broken(int rank, int peer) const {
    return lost_.contains(rank) || lost_.contains(peer);
  }

  void finish_sum() {
    const std::size_t bytes = sums_[0]->bytes_.size();
    std::vector<float> sum(bytes / sizeof(float));
    std::vector<float> mine(sum.size());
    for (const auto& [rank, work] : sums_) {
      std::memcpy(mine.data(), work->bytes_.data(), bytes);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
    }
    for (const auto& [rank, work] : sums_) {
      std::memcpy(work->bytes_.data(), sum.data(), bytes);
      work->done_ = true;
    }
    sums_.clear();
    changed_.notify_all();
  }

  void forget(Work* work) {
    const std::scoped_lock lock(mutex_);
    for (auto& [key, queue] : queues_) {
      std::erase(queue.sends, work);
      std::erase(queue.receives, work);
    }
    std::erase_if(sums_, [&](const auto& one) { return one.second == work; });
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> lost_;
  std::map<std::tuple<int, int, int>, Queue> queues_;  // by sender, receiver and tag
  std::map<int, Work*> sums_;                          // by rank
};

inline Work::~Work() { net_->forget(this); }

inline bool Work::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(net_->mutex_);
  const auto is_over = [&] {
    if (!done_ && net_->is_broken(rank_, peer_))
      throw c10::Error("[net.h:3] Connection closed by peer.");
    return done_ || aborted_;
  };
  // A deadline beyond the clock's range would be in the past.
  if (timeout > std::chrono::hours(1))
    net_->changed_.wait(lock, is_over);
  else if (!net_->changed_.wait_for(lock, timeout, is_over))
    throw c10::Error("[net.h:2] Timed out waiting.");
  return !std::exchange(aborted_, false);
}

inline void Work::abort() {
  const std::scoped_lock lock(net_->mutex_);
  aborted_ = true;
  net_->changed_.notify_all();
}

class Backend {
 public:
  Backend(std::shared_ptr<Net> net, int rank) : net_(std::move(net)), rank_(rank) {}

  int getRank() const { return rank_; }
  int getSize() const { return net_->size(); }
  std::string getBackendName() const { return "gloo"; }

  std::shared_ptr<Work> send(std::vector<at::Tensor>& tensors, int to, int tag) {
    return net_->send(rank_, to, tag, tensors.at(0).bytes);
  }
  std::shared_ptr<Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) {
    return net_->receive(from, rank_, tag, tensors.at(0).bytes);
  }
  std::shared_ptr<Work> allreduce(std::vector<at::Tensor>& tensors) {
    return net_->add_up(rank_, tensors.at(0).bytes);
  }

 private:
  const std::shared_ptr<Net> net_;
  const int rank_;
};

class ProcessGroup {
 public:
  ProcessGroup(std::shared_ptr<Net> net, int rank)
      : backend_(std::make_shared<Backend>(std::move(net), rank)) {}

  std::shared_ptr<Backend> getBackend(c10::DeviceType) const { return backend_; }
  int getSize() const { return backend_->getSize(); }

 private:
  const std::shared_ptr<Backend> backend_;
};

/// The groups that resolve_process_group() finds.
inline std::map<std::string, std::shared_ptr<ProcessGroup>>& groups() {
  static std::map<std::string, std::shared_ptr<ProcessGroup>> all;
  return all;
}

inline std::shared_ptr<ProcessGroup> resolve_process_group(const std::string& name) {
  const auto found = groups().find(name);
  if (found == groups().end()) throw c10::Error("[net.h:4] no such group.");
  return found->second;
}

}  // namespace c10d
