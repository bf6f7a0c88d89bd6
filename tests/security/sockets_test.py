#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which sockets are listened on, by strace: none where ranks are threads, under mpirun as many as by MPI alone.

    sockets_test.py COMMAND OWN_LOOP ROUNDS [MPI_ALONE MPIRUN...]        exits 77 where strace cannot be used
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
BENCH = ["bench", "allreduce", "--n", "1000", "--steps", "3", "--collective", "knot"]


def trace(folder, *before):
    """strace, for one process or, behind mpirun, for each rank: a file for each thread."""
    return [*before, "strace", "-ff", "-qq", "-e", "trace=listen,bind", "-o", f"{folder}/calls"]


def listens(*words, before=()):
    """How often each process that `words` start has called listen()."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*trace(folder, *before), *words], env=ENV, capture_output=True, text=True, timeout=240,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.returncode}: {done.stderr}")
        calls = [path.read_text() for path in Path(folder).iterdir()]
    return sum(len(re.findall(r"^listen\(.*= 0", text, re.MULTILINE)) for text in calls)


class Sockets(unittest.TestCase):
    def test_none_is_listened_on_where_ranks_are_threads(self):
        for words in [[OWN_LOOP], [ROUNDS], [COMMAND, *BENCH, "--workers", "3"]]:
            self.assertEqual(listens(*words), 0, words)

    def test_what_listens_is_seen(self):
        program = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"
        self.assertEqual(listens(sys.executable, "-c", program), 1)

    def test_under_mpirun_only_mpi_listens(self):
        if not MPIRUN:
            self.skipTest("there is no MPI here")
        before = [*MPIRUN, "-n", "2"]
        self.assertEqual(listens(COMMAND, *BENCH, before=before), listens(MPI_ALONE, before=before))


def can_trace():
    try:
        return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    COMMAND, OWN_LOOP, ROUNDS, *rest = sys.argv[1:]
    MPI_ALONE, MPIRUN = (rest[0], rest[1:]) if rest else (None, [])
    if not can_trace():
        print("skipped: strace is not there, or may not trace")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
