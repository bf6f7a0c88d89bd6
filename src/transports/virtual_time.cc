// SPDX-License-Identifier: Apache-2.0
#include "transports/virtual_time.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "core/random.h"
#include "topknot/error.h"

namespace topknot::transports {
namespace {

constexpr int kNobody = -1;
// Of address space; what a rank does not touch takes no memory. Sanitizers make frames larger.
constexpr std::size_t kStackBytes = std::size_t{2} << 20;

/// A thread with a stack that is small enough for a thousand of them.
class SmallThread {
 public:
  explicit SmallThread(std::function<void()> main) : main_(std::move(main)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    const int error = pthread_create(&id_, &attributes, enter, this);
    pthread_attr_destroy(&attributes);
    if (error != 0)
      throw std::system_error(error, std::generic_category(), "a rank's thread");
  }
  ~SmallThread() { pthread_join(id_, nullptr); }
  SmallThread(const SmallThread&) = delete;
  SmallThread& operator=(const SmallThread&) = delete;

 private:
  static void* enter(void* self) {
    static_cast<SmallThread*>(self)->main_();
    return nullptr;
  }

  std::function<void()> main_;
  pthread_t id_{};
};

// The order of a heap whose front is the earliest.
constexpr auto later = [](const auto& a, const auto& b) { return a.at > b.at; };

}  // namespace

VirtualTime::VirtualTime(int ranks, std::uint64_t seed)
    : ranks_(static_cast<std::size_t>(ranks)) {
  std::vector<std::uint64_t> places(ranks_.size());
  std::iota(places.begin(), places.end(), 0);
  core::Random random(seed);
  for (std::size_t i = places.size(); i > 1; --i)
    std::swap(places[i - 1], places[random.below(i)]);
  for (std::size_t i = 0; i < places.size(); ++i) ranks_[i].place = places[i];
}

void VirtualTime::run(const std::function<void(int rank)>& body) {
  const int ranks = static_cast<int>(ranks_.size());
  std::vector<std::unique_ptr<SmallThread>> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.push_back(std::make_unique<SmallThread>([&, rank] { live(rank, body); }));
  } catch (const std::system_error&) {
    cancelled_ = true;
    for (std::size_t i = 0; i < threads.size(); ++i) ranks_[i].baton.release();
    throw ConfigError("This machine started " + std::to_string(threads.size()) + " of " +
                      std::to_string(ranks) +
                      " threads, a thread for each rank; take fewer ranks.");
  }
  for (int rank = 0; rank < ranks; ++rank) make_ready(rank);
  pass_on(kNobody);
  over_.acquire();
  threads.clear();
  rethrow_first();
}

void VirtualTime::live(int rank, const std::function<void(int rank)>& body) {
  rank_at(rank).baton.acquire();
  if (cancelled_) return;
  try {
    body(rank);
  } catch (...) {
    rank_at(rank).error = std::current_exception();
    rank_at(rank).error_sequence = next_sequence_++;
  }
  pass_on(kNobody);
}

void VirtualTime::rethrow_first() const {
  const auto order = [](const Rank& rank) {
    return std::pair(rank.clock, rank.error_sequence);
  };
  const Rank* first = nullptr;
  for (const Rank& rank : ranks_)
    if (rank.error && (first == nullptr || order(rank) < order(*first))) first = &rank;
  if (first != nullptr) std::rethrow_exception(first->error);
}

void VirtualTime::advance(int rank, double seconds) { rank_at(rank).clock += seconds; }

void VirtualTime::schedule(double time, int rank, std::function<void()> event) {
  events_.push({moment(time, rank), std::move(event)});
}

void VirtualTime::catch_up(int rank) {
  make_ready(rank);
  pass_on(rank);
}

void VirtualTime::block(int rank, double deadline) {
  Rank& self = rank_at(rank);
  self.blocked = true;
  self.deadline = deadline;
  deadlines_.emplace(deadline, rank);
  pass_on(rank);
}

void VirtualTime::wake(int rank, double time) {
  Rank& sleeper = rank_at(rank);
  if (!sleeper.blocked) return;
  sleeper.blocked = false;
  deadlines_.erase({sleeper.deadline, rank});
  sleeper.clock = std::max(sleeper.clock, time);
  make_ready(rank);
}

void VirtualTime::make_ready(int rank) { ready_.push({moment(now(rank), rank), rank}); }

// Handles what comes before the next rank that is ready. False: nothing does.
bool VirtualTime::happen_next() {
  const bool event =
      !events_.empty() && (ready_.empty() || events_.first() < ready_.first());
  if (!event && ready_.empty() && deadlines_.empty()) return false;
  if (!deadlines_.empty()) {
    const auto [deadline, rank] = *deadlines_.begin();
    const bool is_first = (events_.empty() || deadline < events_.first().time) &&
                          (ready_.empty() || deadline < ready_.first().time);
    if (is_first) {
      wake(rank, deadline);
      return true;
    }
  }
  if (event) events_.pop().happen();
  return event;
}

// Returns when `from` has the baton again; at once where that is nobody.
void VirtualTime::pass_on(int from) {
  while (happen_next()) {
  }
  if (ready_.empty()) return over_.release();  // all have returned
  const int next = running_ = ready_.pop().rank;
  if (next == from) return;
  rank_at(next).baton.release();
  if (from != kNobody) rank_at(from).baton.acquire();
}

template <typename T>
void VirtualTime::Queue<T>::push(T item) {
  heap_.push_back(std::move(item));
  std::push_heap(heap_.begin(), heap_.end(), later);
}

template <typename T>
T VirtualTime::Queue<T>::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  T item = std::move(heap_.back());
  heap_.pop_back();
  return item;
}

}  // namespace topknot::transports
