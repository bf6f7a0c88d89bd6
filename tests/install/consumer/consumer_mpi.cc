// SPDX-License-Identifier: Apache-2.0
//
// Every rank of an MPI job hears from the one before it.
#include <topknot/topknot.h>

#include <cstddef>
#include <vector>

int main() {
  const auto link = topknot::make_mpi();
  const int next = (link->rank() + 1) % link->size();
  const int previous = (link->rank() + link->size() - 1) % link->size();
  const std::vector<std::byte> mine(1, static_cast<std::byte>(link->rank()));
  std::vector<std::byte> theirs;
  const topknot::Pending sent = link->send(next, mine);
  const topknot::Pending received = link->recv(previous, theirs, 1);
  link->wait(received);
  link->wait(sent);
  return theirs.size() == 1 && theirs[0] == static_cast<std::byte>(previous) ? 0 : 1;
}
