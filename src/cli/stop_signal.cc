// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace topknot::cli {
namespace {

std::atomic<bool> asked = false;
std::atomic<int> file = -1;
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

void take_note(int) {
  asked = true;
  if (file < 0) return;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = write(file, "asked\n", 6);
  errno = before;
}

void listen(int number, int flags) {
  struct sigaction action = {};
  action.sa_handler = take_note;
  action.sa_flags = SA_RESTART | flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void listen_for_stop() {
  listen(SIGUSR1, 0);
  listen(SIGTERM, 0);
  listen(SIGINT, static_cast<int>(SA_RESETHAND));
}

bool stop_was_asked() { return asked; }

void note_stop_in(int open_file) { file = open_file; }

}  // namespace topknot::cli
