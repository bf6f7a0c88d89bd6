// SPDX-License-Identifier: Apache-2.0
//
// MPI and nothing else, for sockets_test.py to compare with.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
