#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs under `train --restarts`: ranks are killed, and it goes on from the last checkpoint.

    restart_test.py COMMAND SOURCE-TREE [MPIRUN]

Ranks are found by OUR_TEST in their environment, which no other process has.
"""

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from train_case import AS_ROOT, CLEAN, COMMAND, MPIRUN, Case, lines

PATIENCE = 120
# Its steps take as long as they are told to, so that a kill comes when it should.
TRAINS_NOTHING = COMMAND.endswith("_fake")


def environment(process):
    try:
        return dict(word.partition("=")[::2] for word in (process / "environ").read_text().split("\0"))
    except (OSError, UnicodeDecodeError):
        return {}


def read_json(path):
    return json.loads(path.read_text())


class Supervised(Case):
    def setUp(self):
        super().setUp()
        self.mark = f"{os.getpid()}-{self.id()}"
        self.env = {**CLEAN, **AS_ROOT, "FAKE_STEP_MS": "20", "OUR_TEST": self.mark}
        self.addCleanup(self.end_all)

    def processes(self):
        """Of the run: their numbers, and the rank of each or None."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            words = environment(process)
            if words.get("OUR_TEST") == self.mark:
                rank = words.get("OMPI_COMM_WORLD_RANK", words.get("PMI_RANK"))
                found[int(process.name)] = None if rank is None else int(rank)
        return found

    def end_all(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def start(self, *words):
        return subprocess.Popen([COMMAND, "train", str(self.job), "--out", str(self.out), *map(str, words)],
                                env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def until(self, ready, run=None):
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > deadline or (run and run.poll() is not None):
                self.fail(run.communicate()[1] if run else "it takes too long")
            time.sleep(0.02)

    def steps(self):
        steps = self.out / "steps.jsonl"
        return steps.read_text().count("\n") if steps.exists() else 0

    def checkpoints(self):
        return len(list((self.out / "checkpoints").glob("step-*[0-9]/manifest")))

    def ended(self, run, code):
        out, errors = run.communicate(timeout=PATIENCE)
        self.assertEqual(run.returncode, code, out + errors)
        self.assert_nothing_runs()
        self.assertFalse((self.out / "ranks").exists())
        return errors

    def assert_nothing_runs(self):
        self.until(lambda: not self.processes())

    def assert_every_step_once(self, steps):
        self.assertEqual([one["step"] for one in lines(self.out / "steps.jsonl")], list(range(steps)))


@unittest.skipUnless(TRAINS_NOTHING, "only where steps take as long as they are told to")
class Threads(Supervised):
    def child(self, run):
        """The one process beside the supervisor."""
        self.until(lambda: len(self.processes()) == 2, run)
        return next(pid for pid in self.processes() if pid != run.pid)

    def test_a_process_that_is_killed_is_started_again(self):
        run = self.start("--set", "checkpoint_every=10", "--restarts", 2, "--steps", 60)
        for restart in (1, 2):
            before = self.checkpoints()
            self.until(lambda: self.checkpoints() >= max(1, before), run)
            os.kill(self.child(run), signal.SIGKILL)
            time.sleep(0.3)
        said = self.ended(run, 0)
        self.assertIn("Exit code 137: restart 2 of 2, with 2 workers, from the last checkpoint.", said)
        self.assert_every_step_once(60)

    def test_no_more_often_than_asked(self):
        run = self.start("--steps", 100000, "--restarts", 0)
        self.until(lambda: self.steps() > 2, run)
        os.kill(self.child(run), signal.SIGKILL)
        self.assertNotIn("restart ", self.ended(run, 137))
        subprocess.run(["rm", "-rf", str(self.out)], check=True)
        run = self.start("--steps", 100000, "--restarts", 1)
        first = self.child(run)
        self.until(lambda: self.steps() > 2, run)
        os.kill(first, signal.SIGKILL)
        self.until(lambda: first not in self.processes(), run)
        second = self.child(run)
        self.until(lambda: self.steps() > 2, run)
        os.kill(second, signal.SIGKILL)
        said = self.ended(run, 137)
        self.assertIn("restart 1 of 1, with 2 workers", said)
        self.assertIn("all 1 restarts are used up", said)

    def test_what_a_restart_does_not_mend_is_passed_on(self):
        for words, code in ((("--set", "lr=1e38", "steps=20"), 76), (("--density", "2"), 2)):
            run = self.start("--restarts", 3, *words)
            self.assertNotIn("restart 1", self.ended(run, code))
            subprocess.run(["rm", "-rf", str(self.out)], check=True)

    def test_a_signal_saves_and_a_second_one_ends(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            run = self.start("--steps", 100000, "--restarts", 3, "--overwrite")
            self.until(lambda: self.steps() > 5, run)
            run.send_signal(number)
            self.assertIn("saved a checkpoint after step", self.ended(run, 85))
            self.assertEqual(self.checkpoints() > 0, True)
            subprocess.run(["rm", "-rf", str(self.out)], check=True)
        self.env["FAKE_STEP_MS"] = "20000"
        run = self.start("--steps", 100000, "--restarts", 3)
        self.until((self.out / "run.json").exists, run)
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        self.ended(run, 137)

    def test_nothing_is_left_when_the_supervisor_is_killed(self):
        run = self.start("--steps", 100000, "--restarts", 3)
        self.until(lambda: self.steps() > 5, run)
        run.kill()
        run.communicate()
        self.assert_nothing_runs()

    def test_what_cannot_be_asked_for(self):
        self.refused(self.job, "--restarts", 2, said="--restarts needs --out DIR")
        self.refused(self.job, "--min-workers", 2, said="--min-workers needs --restarts")
        self.refused(self.job, "--restarts", 1, "--out", self.out, "--min-workers", 3,
                     said="--min-workers 3 is more than the 2 workers of the run")
        self.refused(self.job, "--restarts", 1, "--out", self.out, "--launcher", "no-such-launcher",
                     said="no-such-launcher cannot be run")
        self.refused(self.job, "--restarts", 1, "--out", self.out, env={"OMPI_COMM_WORLD_SIZE": "2"},
                     said="cannot be given to the ranks of a launcher")


class Ranks(Supervised):
    def ranks(self, count, run):
        """The process of each rank, once all are there."""
        def found():
            return {rank: pid for pid, rank in self.processes().items() if rank is not None}
        self.until(lambda: len(found()) == count, run)
        return found()

    def start_ranks(self, workers, *words):
        launcher = subprocess.list2cmdline(MPIRUN)
        return self.start("--workers", workers, "--launcher", launcher, *words)


@unittest.skipUnless(MPIRUN, "built without MPI")
class EightRanks(Ranks):
    def test_two_of_eight_are_killed_and_six_end_it_exactly(self):
        self.job.write_text('model = "mlp"\ndata = "generated:size=3072"\nbatch = 4\nepochs = 2\ntimeout = 30\n'
                            'optimizer = "adam"\nlr = 0.001\ncheckpoint_every = 8\nevaluate = false\n')
        run = self.start_ranks(8, "--restarts", 2, "--min-workers", 6)
        ranks = self.ranks(8, run)
        self.until(lambda: self.checkpoints() > 0, run)
        for rank in (2, 5):
            os.kill(ranks[rank], signal.SIGKILL)
        said = self.ended(run, 0)
        self.assertIn("Exit code 137, ranks 2, 5 of 8 lost: restart 1 of 2, with 6 workers, from the last "
                      "checkpoint.", said)
        steps = lines(self.out / "steps.jsonl")
        self.assert_every_step_once(len(steps))
        if TRAINS_NOTHING:
            return
        # In whole steps of 32 and of 24 samples every sample of an epoch is taken once.
        first = [one["samples"] for one in steps if one["epoch"] == 0]
        self.assertEqual(set(first), {32, 24})
        self.assertGreater(sum(first), 3072 - 24)
        self.assertLessEqual(sum(first), 3072)
        self.assert_equal_to_undisturbed_halves()

    def assert_equal_to_undisturbed_halves(self):
        """Eight workers to the checkpoint, and six from there on: the same bits."""
        (resumed,) = read_json(self.out / "run.json")["resumed"]
        other = self.folder / "other"
        self.done(self.job, "--workers", 8, "--steps", resumed["step"], "--out", other)
        self.done(self.job, "--workers", 6, "--steps", 0, "--resume", "--out", other)
        self.assertEqual(read_json(self.out / "result.json")["weights_hash"],
                         read_json(other / "result.json")["weights_hash"])


@unittest.skipUnless(MPIRUN and TRAINS_NOTHING, "without MPI, or steps take what they take")
class UnderMpirun(Ranks):
    def test_without_leave_to_go_on_with_fewer_it_starts_all(self):
        run = self.start_ranks(3, "--restarts", 1, "--steps", 60, "--set", "checkpoint_every=10")
        ranks = self.ranks(3, run)
        self.until(lambda: self.checkpoints() > 0, run)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertIn("rank 1 of 3 lost: restart 1 of 1, with 3 workers", self.ended(run, 0))

    def test_a_stopped_rank_is_counted_as_lost(self):
        run = self.start_ranks(3, "--restarts", 1, "--min-workers", 2, "--timeout", 3, "--steps", 60, "--set",
                               "checkpoint_every=10")
        ranks = self.ranks(3, run)
        self.until(lambda: self.checkpoints() > 0, run)
        os.kill(ranks[2], signal.SIGSTOP)
        self.assertIn("Exit code 75, rank 2 of 3 lost: restart 1 of 1, with 2 workers", self.ended(run, 0))

    def test_a_signal_reaches_the_ranks_and_nothing_is_left(self):
        run = self.start_ranks(2, "--restarts", 3, "--set", "epochs=100000")
        self.until(lambda: self.steps() > 5, run)
        run.send_signal(signal.SIGINT)
        self.assertIn("saved a checkpoint after step", self.ended(run, 85))
        run = self.start_ranks(2, "--restarts", 3, "--set", "epochs=100000", "--overwrite")
        self.until(lambda: self.steps() > 5, run)
        run.kill()
        run.communicate()
        self.assert_nothing_runs()

    def test_a_launcher_that_starts_nothing_is_not_tried_again(self):
        run = self.start("--restarts", 3, "--launcher", f"{MPIRUN[0]} --no-such-flag")
        self.assertNotIn("restart 1", run.communicate(timeout=PATIENCE)[1])
        self.assertNotEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main()
