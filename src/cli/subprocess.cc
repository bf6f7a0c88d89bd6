// SPDX-License-Identifier: Apache-2.0
#include "cli/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace

SubprocessResult run_subprocess(const std::vector<std::string>& words,
                                ErrorOutput error_output) {
  Pipe pipe;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
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
  if (error != 0)
    throw ConfigError(words[0] + " cannot be run (" + std::strerror(error) +
                      "); install it and try again.");
  pipe.close_writer();
  SubprocessResult done;
  done.output = pipe.read_all();
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  done.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return done;
}

}  // namespace topknot::cli
