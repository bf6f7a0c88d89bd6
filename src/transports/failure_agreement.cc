// SPDX-License-Identifier: Apache-2.0
#include "transports/failure_agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/hash.h"
#include "core/plant.h"
#include "core/text.h"

namespace topknot::transports {
namespace {

using Bytes = FailureAgreement::Bytes;
using Clock = FailureAgreement::Clock;

constexpr int kNobody = -1;

enum class Kind : std::uint32_t { question, answer, lost, disagreement, other_answer };

/// A control message; a failure's sentence comes after it.
struct Control {
  Kind kind = Kind::question;
  std::int32_t peer =
      kNobody;               // that the sender waits for, or is lost; a question's graph
  std::uint64_t number = 0;  // of the question
  std::uint64_t checksum = 0;  // of all of the message, with 0 here
};
static_assert(sizeof(Control) == 24);

Bytes bytes_of(const Control& control, std::string_view sentence = {}) {
  sentence = sentence.substr(0, FailureAgreement::kMostBytes - sizeof control);
  Bytes bytes(sizeof control + sentence.size());
  std::memcpy(bytes.data(), &control, sizeof control);
  std::transform(sentence.begin(), sentence.end(), bytes.begin() + sizeof control,
                 [](char c) { return static_cast<std::byte>(c); });
  const std::uint64_t checksum = core::hash(bytes);
  std::memcpy(bytes.data() + offsetof(Control, checksum), &checksum, sizeof checksum);
  return bytes;
}

/// Whether the bytes are as bytes_of() made them.
bool is_whole(std::span<const std::byte> message, const Control& control) {
  Bytes bytes(message.begin(), message.end());
  std::memset(bytes.data() + offsetof(Control, checksum), 0, sizeof control.checksum);
  return core::hash(bytes) == control.checksum ||
         TOPKNOT_PLANT(damaged_control_message_believed);
}

Bytes bytes_of(const Failure& failure) {
  const Kind kind = failure.disagreement ? Kind::disagreement : Kind::lost;
  return bytes_of({.kind = kind, .peer = failure.peer}, failure.sentence);
}

std::string sentence_in(std::span<const std::byte> message) {
  std::string sentence;
  for (const std::byte b : message.subspan(sizeof(Control)))
    sentence.push_back(static_cast<char>(b));
  return sentence;
}

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

std::string name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

Failure Failure::of(const LinkError& error) {
  return {error.peer(), error.what(),
          dynamic_cast<const DisagreementError*>(&error) != nullptr};
}

void Failure::raise() const {
  if (disagreement) throw DisagreementError(peer, sentence);
  throw LinkError(peer, sentence);
}

FailureAgreement::FailureAgreement(int rank, int size, double timeout, Network network)
    : rank_(rank), size_(size), timeout_(timeout), network_(std::move(network)) {}

FailureAgreement::Wait::Wait(FailureAgreement& agreement, int peer,
                             std::optional<double> limit)
    : agreement_(agreement) {
  const double allowed = limit.value_or(agreement.timeout_);
  const auto deadline = agreement.network_.now() + seconds(allowed);
  const Graph graph = limit ? Graph::slow : Graph::steps;
  const std::scoped_lock lock(agreement_.mutex_);
  place_ = agreement_.waits_.insert(
      agreement_.waits_.end(),
      {peer, ++agreement_.last_id_, deadline, allowed, graph, ""});
}

FailureAgreement::Wait::~Wait() {
  const std::scoped_lock lock(agreement_.mutex_);
  agreement_.waits_.erase(place_);
}

void FailureAgreement::Wait::describe(std::string doing) {
  const std::scoped_lock lock(agreement_.mutex_);
  place_->doing = std::move(doing);
}

void FailureAgreement::fail(Failure failure, bool tell) {
  const Bytes message = bytes_of(failure);
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }
  if (tell && !TOPKNOT_PLANT(failure_not_told)) post_all(message);
  network_.on_failure();
}

// After a failure a rank waits for nobody, but that is not why others wait for it.
Bytes FailureAgreement::answer(std::uint64_t number, Graph graph) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return bytes_of(*failure_);
  if (waits_.empty()) return bytes_of({.kind = Kind::answer, .number = number});
  auto oldest = std::ranges::find(waits_, graph, &Wait::Edge::graph);
  const bool other = oldest == waits_.end();
  if (other || TOPKNOT_PLANT(graphs_mixed)) oldest = waits_.begin();
  return bytes_of({.kind = other ? Kind::other_answer : Kind::answer,
                   .peer = oldest->peer,
                   .number = number});
}

void FailureAgreement::receive(int from, std::span<const std::byte> message) {
  if (message.size() < sizeof(Control) || from < 0 || from >= size_) return;
  Control control;
  std::memcpy(&control, message.data(), sizeof control);
  if (!is_whole(message, control)) return;
  const bool is_rank = control.peer >= 0 && control.peer < size_;
  switch (control.kind) {
    case Kind::question:
      return network_.post(from, answer(control.number, Graph{control.peer}));
    case Kind::answer:
    case Kind::other_answer: {
      const std::scoped_lock lock(mutex_);
      if (question_ &&
          (question_->number == control.number || TOPKNOT_PLANT(old_answer_believed)))
        question_->answers[static_cast<std::size_t>(from)] = {
            control.peer, control.kind == Kind::other_answer};
      return;
    }
    case Kind::lost:
    case Kind::disagreement:
      if (is_rank)
        fail({control.peer, sentence_in(message), control.kind == Kind::disagreement},
             /*tell=*/false);
      return;
  }
}

Clock::time_point FailureAgreement::check(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (failure_ || waits_.empty()) return now + kAnswerTime;
  const auto first = [this] {
    return std::ranges::min_element(waits_, {}, &Wait::Edge::deadline);
  };
  const std::uint64_t about = first()->id;
  if (first()->deadline > now || TOPKNOT_PLANT(deadline_ignored))
    return first()->deadline;
  if (!question_ || question_->about != about) {
    question_ = Question{++last_number_, about, now, {}};
    question_->answers.resize(static_cast<std::size_t>(size_));
    const Control control{.peer = static_cast<std::int32_t>(first()->graph),
                          .number = last_number_};
    lock.unlock();
    post_all(bytes_of(control));
    lock.lock();
    // Where ranks are threads, some may have ended their waits meanwhile.
    if (failure_ || waits_.empty() || first()->id != about || !question_ ||
        question_->about != about)
      return now;
  }
  const auto end = question_->asked + kAnswerTime;
  std::optional<Failure> found = decide(*first(), now >= end);
  if (!found) return end;
  lock.unlock();
  fail(std::move(*found));
  return now;
}

// ---- with the mutex held

std::optional<Failure> FailureAgreement::decide(const Wait::Edge& overdue,
                                                bool too_late) const {
  if (overdue.peer == kEveryone && !too_late) return std::nullopt;
  std::vector<int> path = {overdue.peer == kEveryone ? missing_from_all() : overdue.peer};
  const std::optional<int> lost = end_of(path, too_late);
  if (!lost) return std::nullopt;
  return *lost == kNobody ? circle(overdue, path) : silence(overdue, *lost, path);
}

// Follows the edges from path.back() on. Returns the rank where they end, kNobody where they
// lead round in a circle of one graph, and nothing where an answer may still come.
std::optional<int> FailureAgreement::end_of(std::vector<int>& path, bool too_late) const {
  std::size_t in_graph = 0;  // of the path; the rank behind it waits in the other graph
  const auto circle = [&] {
    if (in_graph == 0) return kNobody;
    path.resize(in_graph);
    return path.back();
  };
  for (;;) {
    const int last = path.back();
    if (last == rank_) return circle();
    if (TOPKNOT_PLANT(wrong_blame)) return last;
    const auto& answer = question_->answers[static_cast<std::size_t>(last)];
    if (!answer && !too_late) return std::nullopt;
    if (answer && answer->other && in_graph == 0) in_graph = path.size();
    int next = answer ? answer->peer : kNobody;
    if (next == kEveryone) next = missing_from_all();
    if (next < 0 || next >= size_ || next == last) return last;
    const bool again = std::ranges::find(path, next) != path.end();
    path.push_back(next);
    if (again) return circle();
  }
}

// Of all other ranks the first that does not answer, else the first that waits for nobody.
int FailureAgreement::missing_from_all() const {
  int idle = kNobody;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto& answer = question_->answers[static_cast<std::size_t>(rank)];
    if (!answer) return rank;
    if (answer->peer == kNobody && idle == kNobody) idle = rank;
  }
  return idle == kNobody ? (rank_ + 1) % size_ : idle;
}

Failure FailureAgreement::silence(const Wait::Edge& overdue, int lost,
                                  const std::vector<int>& path) const {
  std::string sentence =
      name(lost) + " has been silent for " + core::shortest(overdue.limit) + " s";
  if (path.size() > 1) {
    sentence += ": " + name(rank_) + " waits for " + name(path.front());
    for (std::size_t i = 1; i < path.size(); ++i)
      sentence += ", which waits for " + name(path[i]);
  } else if (!overdue.doing.empty()) {
    sentence += " (" + overdue.doing + ")";
  }
  return {lost, std::move(sentence)};
}

// Each of them answers, so none is lost; the error names the lowest rank of the circle.
Failure FailureAgreement::circle(const Wait::Edge& overdue,
                                 const std::vector<int>& path) const {
  std::string sentence = "ranks wait for each other for " +
                         core::shortest(overdue.limit) + " s: " + name(rank_) +
                         " waits for " + name(path.front());
  for (std::size_t i = 1; i < path.size(); ++i)
    sentence += ", which waits for " + name(path[i]);
  const auto first = std::ranges::find(path, path.back());
  const bool whole = path.back() == rank_;
  return {*std::min_element(whole ? path.begin() : first, path.end()),
          std::move(sentence)};
}

void FailureAgreement::post_all(const Bytes& message) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) network_.post(peer, message);
}

}  // namespace topknot::transports
