#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of --print-sbatch and --print-pbs, run by bash with stand-ins for the schedulers.

    batch_script_test.py COMMAND

What the schedulers themselves do is tested under a real Slurm, by tests/slurm/.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
OTHERS = ("OMPI_", "PMI", "SLURM", "PBS", "TOPKNOT_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS)}
JOB = 'model = "mlp"\ndata = "generated:size=640"\nepochs = 1\nbatch = 16\nworkers = 2\n'
# They note what they were called with, and succeed.
STAND_IN = '#!/bin/sh\necho "$(basename "$0") $*" >>"$NOTES"\n'


def read(entry):
    try:
        return entry.read_bytes()
    except OSError:  # it is over
        return b""


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name) / "a folder"
        self.folder.mkdir()
        self.job = self.folder / "small.toml"
        self.job.write_text(JOB)
        self.notes = self.folder / "notes"
        for name in ("scontrol", "qsub"):
            (self.folder / name).write_text(STAND_IN)
            (self.folder / name).chmod(0o755)
        nodes = self.folder / "nodes"
        nodes.write_text("one\none\n")
        # `env` starts one process, whose ranks are threads.
        self.env = {**CLEAN, "PATH": f"{self.folder}:{CLEAN['PATH']}", "LAUNCH": "env",
                    "NOTES": str(self.notes), "SLURM_JOB_ID": "7", "PBS_NODEFILE": str(nodes)}

    def printed(self, *words):
        out = subprocess.run([COMMAND, *map(str, words)], env=CLEAN, capture_output=True,
                             text=True, check=False, timeout=60)
        self.assertEqual(out.returncode, 0, out.stderr)
        script = self.folder / "the script"
        script.write_text(out.stdout)
        return script

    def refused(self, *words, said):
        out = subprocess.run([COMMAND, *map(str, words)], env=CLEAN, capture_output=True,
                             text=True, check=False, timeout=60)
        self.assertEqual((out.returncode, out.stdout), (2, ""), out.stderr)
        self.assertIn(said, out.stderr)

    def start(self, script, **env):
        return subprocess.Popen(["bash", str(script)], cwd=self.folder, env={**self.env, **env},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_script(self, script, code=0, **env):
        process = self.start(script, **env)
        said, _ = process.communicate(timeout=120)
        if "without torch" in said:
            self.skipTest("this command was built without torch")
        self.assertEqual(process.returncode, code, said)
        return said

    def noted(self):
        return self.notes.read_text().splitlines() if self.notes.exists() else []


class Print(Case):
    def test_a_job_that_cannot_be_is_refused_before_it_is_queued(self):
        self.refused("train", self.job, "--print-sbatch", "--scheme", "oktop", said="nearest is")
        self.refused("train", "quikstart", "--print-sbatch", said="nearest is quickstart")
        self.refused("train", self.job, "--print-sbatch", "--resume", said="leave out")
        self.refused("train", self.job, "--print-sbatch", "--print-pbs", said="give one")

    def test_ranks_name_and_folders_are_those_of_the_job(self):
        text = self.printed("train", self.job, "--print-sbatch", "--workers", 8, "--data",
                            "/some/data", "--out", "here").read_text()
        for line in ("#SBATCH --ntasks=8", "#SBATCH --job-name=small",
                     ': "${DATA=/some/data}"', ': "${OUT:=here}"'):
            self.assertIn(line, text)
        self.assertNotIn("--workers", text)
        text = self.printed("train", self.job, "--print-pbs", "--workers", 8).read_text()
        for line in ("#PBS -l select=1:ncpus=8:mpiprocs=8", "#PBS -N small",
                     ': "${OUT:=runs/small}"'):
            self.assertIn(line, text)

    def test_words_come_through_bash_as_they_were_given(self):
        odd = "it's a $HOME; `id` \"x\" *"
        script = self.printed("train", self.job, "--print-sbatch", "--set", f"name={odd}",
                              "seed=3", "--json")
        out = self.run_script(script)
        result = json.loads(out.strip().splitlines()[-1])
        self.assertEqual(result["job"], odd)
        (kept,) = (self.folder / "runs").glob("*/run.json")
        self.assertRegex(kept.parent.name, r"^it-s-a-[-A-Za-z]+$")
        self.assertEqual(json.loads(kept.read_text())["job"]["seed"], 3)

    def test_schemes_of_a_comparison_are_a_variable(self):
        script = self.printed("compare", self.job, "--scheme", "dense,topka", "--out", "all",
                              "--print-sbatch")
        self.run_script(script, SCHEMES="dense gtopk")
        self.assertEqual(sorted(one.name for one in (self.folder / "all").iterdir()
                                if one.is_dir()), ["dense-seed1", "gtopk-seed1"])


class Stopped(Case):
    def stopped(self, script, **env):
        steps = self.folder / "runs" / "small" / "steps.jsonl"
        before = self.count(steps)
        process = self.start(script, **env)
        end = time.monotonic() + 100
        while self.count(steps) < before + 3:
            if process.poll() is not None and "without torch" in process.stdout.read():
                self.skipTest("this command was built without torch")
            self.assertLess(time.monotonic(), end, "it did not begin")
            time.sleep(0.02)
        process.send_signal(signal.SIGUSR1)
        said, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 85, said)
        # What the trainer leaves that trains; the other's checkpoints have no manifest.
        manifest = self.folder / "runs" / "small" / "checkpoints" / "step-0" / "manifest"
        manifest.parent.mkdir(exist_ok=True)
        manifest.touch()

    @staticmethod
    def count(steps):
        return steps.read_text().count("\n") if steps.exists() else 0

    @staticmethod
    def naps(seconds):
        return [entry for entry in Path("/proc").glob("[0-9]*/cmdline")
                if b"sleep\0" + str(seconds).encode() in read(entry)]

    def resumed(self):
        kept = json.loads((self.folder / "runs" / "small" / "run.json").read_text())
        return [one["step"] > 0 for one in kept.get("resumed", [])]

    def script(self, flag):
        return self.printed("train", self.job, flag, "--set", "epochs=20000")

    def test_usr1_saves_and_requeues_and_the_next_run_resumes(self):
        script = self.script("--print-sbatch")
        self.stopped(script)
        self.assertEqual(self.noted(), ["scontrol requeue 7"])
        self.stopped(script, SLURM_RESTART_COUNT="1")
        self.assertEqual(self.resumed(), [True])
        self.assertEqual(len(self.noted()), 2)
        self.stopped(script, SLURM_RESTART_COUNT="2", RESTARTS="2")
        self.assertEqual(len(self.noted()), 2, "it was queued again once too often")

    def test_under_pbs_the_script_submits_a_copy_of_itself(self):
        script = self.script("--print-pbs")
        self.stopped(script, MINUTES="1234")
        until = time.monotonic() + 10  # a process that was told to end takes its time
        while (naps := self.naps(1234 * 60 - 120)) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(naps, [], "the clock was left behind")
        (note,) = self.noted()
        copy = self.folder / "runs" / "small" / "job.pbs"
        self.assertEqual(note, "qsub -V runs/small/job.pbs")
        self.assertEqual(copy.read_text(), script.read_text())
        self.stopped(copy, RESTARTED="1")
        self.assertEqual(self.resumed(), [True])

    def test_other_failures_end_the_job(self):
        script = self.printed("train", self.job, "--print-sbatch")
        self.run_script(script, code=127, LAUNCH="no-such-launcher")
        self.job.write_text(JOB + "nonsense = 1\n")
        self.run_script(script, code=2)
        self.assertEqual(self.noted(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
