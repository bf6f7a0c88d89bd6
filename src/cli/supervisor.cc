// SPDX-License-Identifier: Apache-2.0
//
// An attempt is the launcher's process (or, without one, a process whose threads are the ranks).
// The first uses the folder as it was asked to. A later one resumes where the run has left a
// checkpoint, replaces what the run has left where it died before the first, and does as the first
// where that one never began.
//
// Signals are blocked and taken one at a time, together with SIGCHLD, so nothing here is done in a
// signal handler. The ranks are asked to stop by SIGUSR1, which mpirun and srun pass on;
// SIGTERM would make mpirun kill them within two seconds.

#include "cli/supervisor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "cli/commands.h"
#include "cli/errors.h"
#include "cli/rank_ends.h"
#include "cli/subprocess.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSignal = 128;  // exit codes above are of a process that a signal ended
// How long a launcher may take to end its ranks, once it has been told to.
constexpr timespec kGrace{.tv_sec = 10, .tv_nsec = 0};

/// The signals that end a run and that of a child's end, taken by next() instead of handlers.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
      if (!is_ignored(number)) sigaddset(&set_, number);  // as by nohup
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Waits for one, but no longer than `limit`; none where that is over.
  std::optional<int> next(const timespec* limit) const {
    for (;;) {
      const int number =
          limit ? sigtimedwait(&set_, nullptr, limit) : sigwaitinfo(&set_, nullptr);
      if (number > 0) return number;
      if (errno == EAGAIN) return std::nullopt;
    }
  }

 private:
  static bool is_ignored(int number) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    return now.sa_handler == SIG_IGN;
  }

  sigset_t set_;
  sigset_t before_;
};

std::optional<fs::file_time_type> written_at(const fs::path& file) {
  std::error_code none;
  const auto time = fs::last_write_time(file, none);
  return none ? std::nullopt : std::optional(time);
}

bool has_checkpoint(const fs::path& run) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(checkpoints_in(run), none))
    if (fs::exists(entry.path() / "manifest", none) && entry.path().extension() != ".tmp")
      return true;
  return false;
}

class Supervisor {
 public:
  explicit Supervisor(const Supervision& how)
      : how_(how), workers_(how.workers), before_(written_at(how.out / "run.json")) {}

  int run() {
    for (int restart = 0;; ++restart) {
      if (!how_.out.empty()) remove_rank_ends(how_.out);
      const int exit_code = attempt();
      const RankEnds ends = how_.out.empty() ? RankEnds{} : read_rank_ends(how_.out);
      begun_ = begun_ || ends.begun > 0 || run_has_begun();
      if (asked_ > 0 || !is_worth_a_restart(exit_code, begun_) || how_.restarts == 0)
        return finish(exit_code);
      if (restart == how_.restarts) {
        complain(fmt::format("Exit code {}, and all {} restarts are used up.", exit_code,
                             how_.restarts),
                 0);
        return finish(exit_code);
      }
      const int before = workers_;
      workers_ =
          workers_left(before, static_cast<int>(ends.lost.size()), how_.least_workers);
      announce(exit_code, restart + 1, before, ends.lost);
    }
  }

 private:
  int finish(int exit_code) const {
    if (!how_.out.empty()) remove_rank_ends(how_.out);
    return exit_code;
  }

  /// The exit code of the child.
  int attempt() {
    Child child(words());
    for (;;) {
      const auto number = signals_.next(asked_ > 1 ? &kGrace : nullptr);
      if (const auto code = child.exit_code()) return *code;
      if (!number) child.kill_group();
      if (number && *number != SIGCHLD) end(child);
    }
  }

  void end(Child& child) {
    ++asked_;
    if (asked_ == 1) {
      child.send(SIGUSR1);
    } else if (how_.launcher.empty()) {
      child.kill_group();
    } else {
      child.send(SIGTERM);
    }
  }

  std::vector<std::string> words() const {
    std::vector<std::string> words = how_.launcher;
    if (!how_.launcher.empty()) {
      words.insert(words.end(), {"-n", std::to_string(workers_)});
    }
    words.insert(words.end(), how_.command.begin(), how_.command.end());
    if (how_.launcher.empty())
      words.insert(words.end(), {"--workers", std::to_string(workers_)});
    const FolderUse use = next_use();
    if (use == FolderUse::resume) words.emplace_back("--resume");
    if (use == FolderUse::overwrite) words.emplace_back("--overwrite");
    return words;
  }

  bool run_has_begun() const { return written_at(how_.out / "run.json") != before_; }

  FolderUse next_use() const {
    if (how_.use == FolderUse::resume || !run_has_begun()) return how_.use;
    return has_checkpoint(how_.out) ? FolderUse::resume : FolderUse::overwrite;
  }

  void announce(int exit_code, int restart, int before,
                const std::vector<int>& lost) const {
    std::string text = fmt::format("Exit code {}", exit_code);
    if (!lost.empty())
      text += fmt::format(", {} {} of {} lost", lost.size() == 1 ? "rank" : "ranks",
                          fmt::join(lost, ", "), before);
    text += fmt::format(": restart {} of {}, with {} workers, {}.", restart,
                        how_.restarts, workers_,
                        next_use() == FolderUse::resume ? "from the last checkpoint"
                                                        : "from the beginning");
    complain(text, 0);
  }

  const Supervision& how_;
  const Signals signals_;
  int workers_;
  const std::optional<fs::file_time_type> before_;  // of an older run
  bool begun_ = false;                              // in any attempt
  int asked_ = 0;                                   // how many signals have come
};

}  // namespace

bool is_worth_a_restart(int exit_code, bool begun) {
  switch (exit_code) {
    case kPeerLost:
      return true;
    case kDone:
    case kBadUsage:
    case kRanksDisagree:
    case kBadData:
    case kNoCheckpoint:
    case kBug:
    case kDiskFailed:
    case kNotFinite:
    case kPreempted:
      return false;
    default:
      // No end of ours: a process was killed, or the launcher failed, which may report a killed
      // rank in a way of its own (MPICH's by 9), or its own wrong use.
      return exit_code > kSignal || begun;
  }
}

int workers_left(int workers, int lost, int least) {
  return std::max(workers - lost, std::min(workers, least));
}

int supervise(const Supervision& how) { return Supervisor(how).run(); }

}  // namespace topknot::cli
