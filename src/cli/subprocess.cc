// SPDX-License-Identifier: Apache-2.0
#include "cli/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "topknot/error.h"

extern char** environ;

namespace topknot::cli {
namespace {

/// Carries the program's standard output.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0)
      throw StorageError(std::string("No pipe can be made: ") + std::strerror(errno));
  }
  ~Pipe() {
    close_writer();
    close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  std::string read_all() {
    std::string all;
    char chunk[1 << 14];
    for (;;) {
      const ssize_t got = read(ends_[0], chunk, sizeof chunk);
      if (got > 0) all.append(chunk, static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) return all;
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Valid as long as `words` are.
std::vector<char*> argv_of(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] void refuse(const std::string& program, int error) {
  throw ConfigError(program + " cannot be run (" + std::strerror(error) +
                    "); install it and try again.");
}

}  // namespace

std::string this_program() {
  std::error_code none;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", none);
  return none ? "topknot" : path.string();
}

SubprocessResult run_subprocess(const std::vector<std::string>& words,
                                ErrorOutput error_output) {
  Pipe pipe;
  const std::vector<char*> argv = argv_of(words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe.writer(), STDOUT_FILENO);
  if (error_output == ErrorOutput::discarded)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) refuse(words[0], error);
  pipe.close_writer();
  SubprocessResult done;
  done.output = pipe.read_all();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  done.exit_code = exit_code_of(status);
  return done;
}

// posix_spawn() has no way to ask for a signal at the parent's death. The pipe closes when the
// program has been started; before that it carries the error.
Child::Child(const std::vector<std::string>& words) {
  Pipe failure;
  const std::vector<char*> argv = argv_of(words);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) refuse(words[0], errno);
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(128 + SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(failure.writer(), &error, sizeof error);
    _exit(127);
  }
  setpgid(pid_, pid_);  // whichever of the two comes first
  failure.close_writer();
  const std::string said = failure.read_all();
  if (said.empty()) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  int error = 0;
  std::memcpy(&error, said.data(), std::min(said.size(), sizeof error));
  refuse(words[0], error);
}

Child::~Child() {
  if (exit_code()) return;
  kill_group();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::send(int signal) const {
  if (!exit_code_) kill(pid_, signal);
}

void Child::kill_group() const { kill(-pid_, SIGKILL); }

std::optional<int> Child::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_)
    exit_code_ = exit_code_of(status);
  return exit_code_;
}

}  // namespace topknot::cli
