// SPDX-License-Identifier: Apache-2.0
//
// A job of which one rank falls silent, the last one unless another is named, for
// silent_rank_test.sh. The other ranks wait for it, each prints what it was told and after how
// long, leaves, and prints that it has left. Instead of a single message it can be steps of a
// collective, in the second of which the rank falls silent.
//
//   silent_rank stop|sleep|speak receive|send|channel|COLLECTIVE TIMEOUT [RANK]
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {
namespace {

constexpr std::size_t kLarge = 8 << 20;

bool is_collective(const std::string& what) {
  return what != "receive" && what != "send" && what != "channel";
}

void reduce(Transport& link, const std::string& collective, int steps) {
  const Layout layout = Layout::flat(1000);
  const auto compressor = make_compressor({"topk", {}}, layout);
  const auto made = make_collective({collective, {}}, link, *compressor, layout);
  std::vector<float> residual(1000, 1.0F);
  std::vector<float> sum(1000);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> grad(1000, 1.0F);
    made->reduce(residual, grad, 10, sum);
  }
}

/// What the rank that falls silent does.
void serve(Transport& link, const std::string& how, const std::string& what) {
  if (is_collective(what)) reduce(link, what, 1);
  if (how == "stop") raise(SIGSTOP);
  if (how != "speak") std::this_thread::sleep_for(std::chrono::hours(1));
  for (int peer = 0; peer < link.rank(); ++peer) {
    std::vector<std::byte> into;
    if (what == "receive") link.wait(link.send(peer, {}));
    if (what == "send") link.wait(link.recv(peer, into, kLarge));
  }
  if (what == "channel") static_cast<void>(link.channel(1));
}

/// What the others do.
void ask(Transport& link, int last, const std::string& what) {
  std::vector<std::byte> into;
  const std::vector<std::byte> large(kLarge);
  if (what == "receive") link.wait(link.recv(last, into, 0));
  if (what == "send") link.wait(link.send(last, large));
  if (what == "channel") static_cast<void>(link.channel(1));
  if (is_collective(what)) reduce(link, what, 2);
}

/// Whether no rank was found to be silent.
bool run(const std::string& how, const std::string& what, double timeout, int silent) {
  const auto link = make_mpi({.timeout = timeout});
  const int last = silent < 0 ? link->size() - 1 : silent;
  const double start = link->now();
  try {
    link->rank() == last ? serve(*link, how, what) : ask(*link, last, what);
    return true;
  } catch (const LinkError& error) {
    std::printf("rank %d blames rank %d after %.1f s: %s\n", link->rank(), error.peer(),
                link->now() - start, error.what());
    std::fflush(stdout);
    return false;
  }
}

}  // namespace
}  // namespace topknot

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const int silent = argc == 5 ? std::atoi(argv[4]) : -1;
  if (topknot::run(argv[1], argv[2], std::atof(argv[3]), silent)) return 0;
  std::printf("left\n");
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // let the others speak, too
  _exit(3);
}
