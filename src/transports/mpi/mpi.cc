// SPDX-License-Identifier: Apache-2.0
//
// mpi: ranks are processes of an MPI job, channels are communicators.
//
// Nothing blocks: wait() polls its own message and the oldest receive of every source until its
// deadline, so two ranks may both wait for a send first. In between it receives control messages,
// by which the ranks agree on the cause of a failure (FailureAgreement). A rank that is stopped
// answers none.

#include <mpi.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "topknot/error.h"
#include "topknot/transports.h"
#include "transports/failure_agreement.h"
#include "transports/mpi/job.h"
#include "transports/mpi/library.h"
#include "transports/mpi/messages.h"

namespace topknot {
namespace {

using mpi::Job;
using mpi::Message;
using mpi::Queue;
using transports::Failure;
using transports::FailureAgreement;
using Clock = FailureAgreement::Clock;

/// The pause between two polls of a message that has not come yet. Ranks may outnumber cores, so
/// a rank yields its core early, and sleeps when it waits for long.
class Backoff {
 public:
  void pause() {
    ++looks_;
    if (looks_ <= kSpins) return;
    if (looks_ <= kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  /// Whether the message has not come at once.
  bool waits() const noexcept { return looks_ > kSpins; }
  /// Whether to poll other things than the message now.
  bool polls_others() const noexcept { return waits() && looks_ % kEvery == 0; }

 private:
  static constexpr int kSpins = 20;
  static constexpr int kYields = 2000;
  static constexpr int kEvery = 16;
  int looks_ = 0;
};

class Mpi final : public Transport {
 public:
  /// Takes over `comm`.
  Mpi(std::shared_ptr<Job> job, MPI_Comm comm, int id)
      : job_(std::move(job)),
        comm_(comm),
        id_(id),
        rank_(job_->rank()),
        size_(job_->size()),
        messages_(comm, id, size_, job_->options().max_chunk) {
    const auto guard = enter();
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  ~Mpi() override {
    const auto guard = enter();
    if (is_idle()) {
      MPI_Comm_free(&comm_);
    } else {
      give_up();
    }
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return start_send(to, bytes, mpi::kMessages, nullptr);
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    const std::span<const std::byte> view = *bytes;
    return start_send(to, view, mpi::kMessages, std::move(bytes));
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return start_recv(from, into, limit, mpi::kMessages);
  }

  void wait(Pending message) override {
    unless_failed([&] {
      Message& m = messages_.find(message);
      await(m);
      if (m.overlong != 0) refuse(message, m);
      messages_.finish(message);
    });
  }

  void fail(const LinkError& cause) noexcept override {
    job_->agreement().fail(Failure::of(cause));
  }

  void abandon() noexcept override {
    const auto guard = enter();
    give_up();
  }

  void allow(double seconds) override { limit_ = seconds; }

  /// The one call without a deadline. MPI_Iallreduce could be polled, but in Open MPI it
  /// is another algorithm, up to twice as slow, and this is here to be compared with.
  /// Below MPI_THREAD_MULTIPLE other channels of the process stand still meanwhile.
  bool allreduce(std::span<float> x) override {
    unless_failed([&] {
      const auto guard = enter();
      const std::size_t most =
          std::max<std::size_t>(1, messages_.max_chunk() / sizeof(float));
      while (!x.empty()) {
        const std::size_t n = std::min(x.size(), most);
        messages_.check(MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(n),
                                      MPI_FLOAT, MPI_SUM, comm_),
                        rank_);
        x = x.subspan(n);
      }
    });
    return true;
  }

  double now() const noexcept override {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(time).count();
  }

  int node_of(int rank) const noexcept override { return job_->host_of(rank); }

  std::unique_ptr<Transport> channel(int id) override {
    agree("channel", static_cast<std::uint64_t>(id));
    // All ranks are here now, so this will not wait for one that never comes.
    MPI_Comm comm = MPI_COMM_NULL;
    unless_failed([&] {
      const auto guard = enter();
      messages_.check(MPI_Comm_dup(comm_, &comm), rank_);
    });
    return std::make_unique<Mpi>(job_, comm, id);
  }

  /// Returns once every rank has called this with the same `mine`. Every rank hears every other,
  /// so each sees by itself which rank differs or does not call.
  void agree(const char* field, std::uint64_t mine) {
    std::vector<std::byte> said(sizeof mine);
    std::memcpy(said.data(), &mine, sizeof mine);
    std::vector<std::vector<std::byte>> heard(static_cast<std::size_t>(size_));
    std::vector<Pending> sends;
    std::vector<Pending> receives;
    for (int peer = 0; peer < size_; ++peer) {
      receives.push_back(start_recv(peer, heard[peer], sizeof mine, mpi::kAgreement));
      sends.push_back(start_send(peer, said, mpi::kAgreement, nullptr));
    }
    for (const Pending message : receives) wait(message);
    for (const Pending message : sends) wait(message);
    for (int peer = 0; peer < size_; ++peer) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, heard[peer].data(),
                  std::min(heard[peer].size(), sizeof theirs));
      if (theirs == mine) continue;
      unless_failed([&] {
        throw DisagreementError(peer, std::string(field) + " is " + std::to_string(mine) +
                                          " on rank " + std::to_string(rank_) + " but " +
                                          std::to_string(theirs) + " on rank " +
                                          std::to_string(peer));
      });
    }
  }

 private:
  std::unique_lock<std::mutex> enter() const { return job_->session().enter(); }

  // Runs `work` unless the channel has failed. A LinkError makes it fail.
  template <typename Work>
  std::invoke_result_t<Work> unless_failed(Work work) {
    if (failure_) failure_->raise();
    if (job_->agreement().failed()) job_->agreement().failure().raise();
    try {
      return work();
    } catch (const OverlongError& error) {
      failure_ =
          Failure::of(error);  // the caller reads its first bytes and reports the cause
      throw;
    } catch (const LinkError& error) {
      const bool tell = dynamic_cast<const DisagreementError*>(&error) == nullptr;
      job_->agreement().fail(Failure::of(error), tell);
      throw;
    }
  }

  Pending start_send(int to, std::span<const std::byte> bytes, Queue queue,
                     std::shared_ptr<const std::vector<std::byte>> shared) {
    return unless_failed([&] {
      const auto guard = enter();
      return messages_.start_send(to, bytes, queue, std::move(shared));
    });
  }

  Pending start_recv(int from, std::vector<std::byte>& into, std::size_t limit,
                     Queue queue) {
    return unless_failed([&] { return messages_.start_recv(from, into, limit, queue); });
  }

  bool look(Message& m) {
    const auto guard = enter();
    return messages_.look(m);
  }

  // Returns when `m` is done. Throws the failure of the job where one comes first.
  void await(Message& m) {
    FailureAgreement& agreement = job_->agreement();
    std::optional<FailureAgreement::Wait> wait;
    for (Backoff backoff; !look(m); backoff.pause()) {
      if (!backoff.polls_others()) continue;
      if (!wait) wait.emplace(agreement, m.peer, limit_);
      job_->receive_control();
      if (Clock::now() > wait->deadline()) {
        wait->describe(state_of(m));
        agreement.check(Clock::now());
      }
      if (agreement.failed()) agreement.failure().raise();
    }
  }

  std::string state_of(const Message& m) const {
    const std::string on = " it on channel " + std::to_string(id_);
    if (m.is_send()) return "waiting to send to" + on;
    return "waiting to receive from" + on + "; " + std::to_string(m.filled) +
           " bytes have come";
  }

  [[noreturn]] void refuse(Pending message, const Message& m) {
    const std::string sentence = "rank " + std::to_string(m.peer) +
                                 " sent a message of " + (m.whole ? "" : "at least ") +
                                 std::to_string(m.overlong) + " bytes on channel " +
                                 std::to_string(id_) + ", where at most " +
                                 std::to_string(m.limit) + " were expected";
    const int peer = m.peer;
    messages_.finish(message);
    throw OverlongError(peer, sentence);
  }

  bool is_idle() noexcept {
    try {
      return !failure_ && !job_->agreement().failed() && messages_.is_idle();
    } catch (...) {
      return false;
    }
  }

  void give_up() noexcept {
    job_->session().abandon();
    messages_.give_up();
    if (!failure_)
      failure_ = {rank_, "channel " + std::to_string(id_) + " has been given up"};
  }

  std::shared_ptr<Job> job_;
  MPI_Comm comm_;
  const int id_;
  const int rank_;
  const int size_;
  std::optional<double> limit_;     // seconds, of a wait
  std::optional<Failure> failure_;  // of this channel alone
  mpi::Messages messages_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi(const LinkOptions& options) {
  if (!(options.timeout > 0)) {
    throw ConfigError("the timeout must be more than 0 seconds, not " +
                      std::to_string(options.timeout));
  }
  auto job = std::make_shared<Job>(mpi::Session::get(), options);
  MPI_Comm comm = MPI_COMM_NULL;
  {
    const auto guard = job->session().enter();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  }
  auto link = std::make_unique<Mpi>(std::move(job), comm, 0);
  link->agree("max_chunk", options.max_chunk);
  return link;
}

void end_mpi_job(int exit_code) noexcept { MPI_Abort(MPI_COMM_WORLD, exit_code); }

// Open MPI follows its version by a comma and the package, MPICH by lines on its configuration.
std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, text + std::strcspn(text, ",\n"));
  for (char& c : name)
    if (c == '\t') c = ' ';
  return name;
}

}  // namespace topknot
