// SPDX-License-Identifier: Apache-2.0
#include "amx.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace topknot::python {
namespace {

std::string* last_words = nullptr;

// One of the threads that get here prints the sentence, and then dies of the signal.
void say_and_die(int number) {
  static std::atomic_flag said;
  while (said.test_and_set()) pause();
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, last_words->data(), last_words->size());
  ::signal(number, SIG_DFL);
  raise(number);
}

#if defined(__x86_64__) && defined(__linux__)

bool announces_amx() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kTile = 1U << 24;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kTile) != 0;
}

/// One product of bf16 tiles, after asking the kernel for the permission as oneDNN does.
/// Returns whether that was given.
bool multiply_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  struct alignas(64) {
    unsigned char palette = 1;
    unsigned char start_row = 0;
    unsigned char reserved[14] = {};
    unsigned short bytes_of_a_row[16] = {64, 64, 64};
    unsigned char rows[16] = {16, 16, 16};
  } shapes;
  static_assert(sizeof(shapes) == 64);
  asm volatile(
      "ldtilecfg %0\n\t"
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tilezero %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilerelease"
      :
      : "m"(shapes));
  return true;
}

#else

bool announces_amx() { return false; }
bool multiply_tiles() { return true; }

#endif

}  // namespace

bool amx_is_refused() {
  if (!announces_amx()) return false;
  // The child does only what a signal handler may: other threads' locks are as they were.
  const pid_t child = fork();
  if (child < 0) return false;  // not known
  if (child == 0) {
    ::signal(SIGILL, SIG_DFL);
    _exit(multiply_tiles() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status != 0;
}

void say_at_sigill(const std::string& sentence) {
  struct sigaction action = {};
  if (sigaction(SIGILL, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  last_words = new std::string(sentence);  // for as long as the process lives
  action = {};
  action.sa_handler = say_and_die;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace topknot::python
