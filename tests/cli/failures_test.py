#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job of several processes says when one of its ranks fails, and how it ends.

    failures_test.py COMMAND MPIRUN

COMMAND is the one whose trainer trains nothing; its folder "missing" has no data.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
MPIRUN = sys.argv.pop(1).split()
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
JOB = 'model = "mlp"\ndata = "generated:size=640"\nepochs = 2\nbatch = 16\n'


def start(*programs, env=None):
    """Each is a number of ranks and the command's words."""
    words = []
    for ranks, *rest in programs:
        words += [":"] * bool(words) + ["-n", str(ranks), COMMAND, *map(str, rest)]
    return subprocess.Popen([*MPIRUN, *words], env={**ENV, **(env or {})}, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def end(job, seconds=60):
    try:
        _, errors = job.communicate(timeout=seconds)
    finally:
        job.kill()
    return job.returncode, [line for line in errors.splitlines() if line.startswith("topknot:")]


def bench(*words):
    return ("bench", "allreduce", "--n", 1000, *words)


def pid_of_rank(job, rank):
    """The process of a rank, once it is there."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for _ in range(100):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if wanted in environment and parent == job.pid:
                return int(process.name)
        time.sleep(0.1)
    raise AssertionError(f"there is no rank {rank}")


class OneRankFails(unittest.TestCase):
    def test_its_cause_is_all_that_is_said_and_comes_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder, "job.toml")
            job.write_text(JOB)
            before = time.monotonic()
            code, said = end(start((2, "train", job, "--timeout", 60),
                                   (1, "train", job, "--timeout", 60, "--data", "missing")))
        self.assertEqual(code, 65, said)
        self.assertEqual(said, ["topknot: rank 2: The folder missing has no Fashion-MNIST in it."])
        self.assertLess(time.monotonic() - before, 30)


class RanksDisagree(unittest.TestCase):
    def test_another_k_is_said_by_all_ranks(self):
        for collective in ("knot", "topka", "oktopk"):
            words = bench("--collective", collective, "--timeout", 30)
            code, said = end(start((1, *words, "--density", 0.05), (1, *words, "--density", 0.2),
                                   (1, *words, "--density", 0.05)))
            self.assertEqual(code, 64, said)
            self.assertEqual(sorted(line[:16] for line in said),
                             ["topknot: rank 0:", "topknot: rank 1:", "topknot: rank 2:"])
            for line in said:
                self.assertRegex(line, "disagree: k is (50 on rank [02], 200|200 on rank 1, 50) ")


class ARankStops(unittest.TestCase):
    def stop(self, rank, number):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "job.toml")
            path.write_text(JOB)
            job = start((4, "train", path, "--timeout", 2, "--set", "steps=1000000",
                         "--out", Path(folder, "out")), env={"FAKE_STEP_MS": "5"})
            pid = pid_of_rank(job, rank)
            log = Path(folder, "out", "steps.jsonl")
            while not log.exists() and job.poll() is None:
                time.sleep(0.1)
            os.kill(pid, number)
            before = time.monotonic()
            return *end(job), time.monotonic() - before

    def test_all_others_name_it(self):
        for stopped in (2, 0):
            code, said, seconds = self.stop(stopped, signal.SIGSTOP)
            self.assertEqual(code, 75, said)
            self.assertGreater(seconds, 2)
            spoke = [re.match(r"topknot: rank (\d): rank (\d) has been silent for 2 s", line)
                     for line in said]
            self.assertTrue(all(spoke), said)
            # mpirun wakes the stopped rank to end it, and then it may print the sentence too.
            self.assertEqual({int(one[1]) for one in spoke} | {stopped}, {0, 1, 2, 3}, said)
            self.assertEqual({int(one[2]) for one in spoke}, {stopped}, said)

    def test_a_killed_one_ends_the_job(self):
        code, _, _ = self.stop(2, signal.SIGKILL)
        self.assertIn(code, (137, 75))


if __name__ == "__main__":
    unittest.main()
