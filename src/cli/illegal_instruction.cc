// SPDX-License-Identifier: Apache-2.0
#include "cli/illegal_instruction.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace topknot::cli {
namespace {

constexpr std::string_view kSentence =
    "topknot: The processor does not grant an instruction that it announces, and torch "
    "has used it: set ONEDNN_MAX_CPU_ISA=AVX2 in the environment and run this again.\n";

// One of the threads that get here prints the sentence, and then dies of the signal.
void say_and_die(int number) {
  static std::atomic_flag said;
  while (said.test_and_set()) pause();
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void explain_illegal_instructions() {
  struct sigaction action = {};
  action.sa_handler = say_and_die;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace topknot::cli
