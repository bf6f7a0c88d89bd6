// SPDX-License-Identifier: Apache-2.0
//
// What would change if messages were carried another way? Times the patterns that the collectives
// are made of (docs/communication.md) over plain MPI, for several lengths of a message:
//
//   two-sided   MPI_Isend and MPI_Irecv, as transports/mpi does
//   one-sided   MPI_Put into the receiver's window, then a second put that says so: the receiver
//               looks at its own memory, as with NVSHMEM's put with signal
//
//   pair        each rank with one partner, both ways: gtopk, spardl, ssar
//   scatter     each rank to every other, a message each: oktopk, knot, topkdsa
//
// and for an allgather of lengths that differ by rank, as selections by a threshold do: lengths first
// and then the exact bytes (variable), against blocks of the longest possible length (padded), which
// is what a library without variable lengths forces.
//
//   mpirun -n 4 carriers_mpi [REPEATS]

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using Ranks = std::vector<int>;

struct World {
  int rank = 0;
  int size = 1;
};

Ranks others(const World& world) {
  Ranks all;
  for (int i = 1; i < world.size; ++i) all.push_back((world.rank + i) % world.size);
  return all;
}

void two_sided(const Ranks& peers, int length, std::vector<char>& out,
               std::vector<char>& in) {
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < peers.size(); ++i)
    MPI_Irecv(in.data() + i * static_cast<std::size_t>(length), length, MPI_BYTE,
              peers[i], 0, MPI_COMM_WORLD, &requests.emplace_back());
  for (const int peer : peers)
    MPI_Isend(out.data(), length, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
              &requests.emplace_back());
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

/// A window with a slot and a signal for each rank.
class Window {
 public:
  Window(const World& world, int longest) : world_(world), longest_(longest) {
    const MPI_Aint bytes = static_cast<MPI_Aint>(world.size) * (longest + kSignal);
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
    std::fill_n(memory_, bytes, '\0');
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  }
  ~Window() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void exchange(const Ranks& peers, int length, const std::vector<char>& out) {
    ++turn_;
    for (const int peer : peers) {
      MPI_Put(out.data(), length, MPI_BYTE, peer, slot(world_.rank), length, MPI_BYTE,
              window_);
      MPI_Win_flush(peer, window_);  // the signal must not overtake the bytes
      MPI_Accumulate(&turn_, 1, MPI_INT, peer, slot(world_.rank) + longest_, 1, MPI_INT,
                     MPI_REPLACE, window_);
      MPI_Win_flush(peer, window_);
    }
    for (const int peer : peers) wait_for(peer);
    MPI_Barrier(MPI_COMM_WORLD);  // a slot may be written again once all have read it
  }

 private:
  static constexpr int kSignal = 64;

  MPI_Aint slot(int rank) const {
    return static_cast<MPI_Aint>(rank) * (longest_ + kSignal);
  }
  void wait_for(int peer) {
    const auto* signal = reinterpret_cast<volatile int*>(memory_ + slot(peer) + longest_);
    while (*signal < turn_) {
      int none = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
      MPI_Win_sync(window_);
      sched_yield();  // ranks may share cores
    }
  }

  const World world_;
  const int longest_;
  char* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
  int turn_ = 0;
};

void gather_variable(const World& world, const std::vector<char>& out, int mine,
                     std::vector<char>& in) {
  std::vector<int> lengths(static_cast<std::size_t>(world.size));
  MPI_Allgather(&mine, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> offsets(lengths.size());
  for (std::size_t i = 1; i < offsets.size(); ++i)
    offsets[i] = offsets[i - 1] + lengths[i - 1];
  MPI_Allgatherv(out.data(), mine, MPI_BYTE, in.data(), lengths.data(), offsets.data(),
                 MPI_BYTE, MPI_COMM_WORLD);
}

/// The median over `repeats`, of the slowest rank.
double microseconds(int repeats, const std::function<void()>& work) {
  std::vector<double> times;
  work();
  for (int i = 0; i < repeats; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    work();
    double mine = MPI_Wtime() - start;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(1e6 * slowest);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

void print_row(const World& world, const char* pattern, int length, double plain,
               double other) {
  if (world.rank == 0)
    std::printf("| %s | %d | %.1f | %.1f | %.2f |\n", pattern, length, plain, other,
                other / plain);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 101;
  constexpr int kLongest = 1 << 20;
  {
    Window window(world, kLongest);
    std::vector<char> out(kLongest, 'x');
    std::vector<char> in(static_cast<std::size_t>(world.size) * kLongest);
    // Both ends must name each other: an odd rank out sits still.
    const int partner = world.rank ^ 1;
    const Ranks pair = partner < world.size ? Ranks{partner} : Ranks{};
    if (world.rank == 0)
      std::printf(
          "| pattern | bytes | two-sided, us | one-sided, us | ratio "
          "|\n|---|---|---|---|---|\n");
    for (const int length : {1 << 10, 1 << 14, 1 << 17, kLongest})
      for (const auto& [name, peers] :
           {std::pair<const char*, Ranks>("pair", pair), {"scatter", others(world)}}) {
        const double plain =
            microseconds(repeats, [&] { two_sided(peers, length, out, in); });
        const double put =
            microseconds(repeats, [&] { window.exchange(peers, length, out); });
        print_row(world, name, length, plain, put);
      }
    if (world.rank == 0)
      std::printf(
          "\n| allgather | bytes | variable, us | padded, us | ratio "
          "|\n|---|---|---|---|---|\n");
    for (const int length : {1 << 10, 1 << 14, 1 << 17, kLongest}) {
      // Rank 0 has what fits exactly, and the others half of it.
      const int mine = world.rank == 0 ? length : length / 2;
      const double variable =
          microseconds(repeats, [&] { gather_variable(world, out, mine, in); });
      const double padded = microseconds(repeats, [&] {
        MPI_Allgather(out.data(), length, MPI_BYTE, in.data(), length, MPI_BYTE,
                      MPI_COMM_WORLD);
      });
      print_row(world, "half of the rest", length, variable, padded);
    }
  }
  MPI_Finalize();
  return 0;
}
