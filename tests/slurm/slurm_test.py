#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training under a real Slurm: submitted, preempted, queued again, finished, the same weights.

    scripts/slurm slurm_test.py COMMAND SOURCE-TREE

Two nodes of two ranks each. The reference is a run on threads that nobody disturbs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
TREE = Path(sys.argv.pop(1))
PATIENCE = 120  # seconds that one thing may take on a busy machine
JOB = """
model = "mlp"
data = "generated:size=4096"
epochs = 1000000
batch = 8
workers = 4
evaluate_every = 0
check_every = 50
"""
# The nodes are one host here: Open MPI's shared memory would take their ranks for the same.
ENVIRONMENT = {**os.environ, "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}
BEGIN = time.monotonic()


def note(text):
    print(f"{time.monotonic() - BEGIN:6.1f} s  {text}", flush=True)


def run(*words, **more):
    return subprocess.run(list(map(str, words)), env=ENVIRONMENT, capture_output=True,
                          text=True, timeout=PATIENCE, check=True, **more).stdout


def field(job, name):
    found = re.search(rf"\b{name}=(\S+)", run("scontrol", "show", "job", job))
    return found.group(1) if found else None


def is_over(job):
    return field(job, "JobState") in ("COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED")


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.job = cls.folder / "small.toml"
        cls.job.write_text(JOB)
        cls.steps = cls.steps_of_seconds(6)
        cls.weights = cls.undisturbed(cls.steps)

    @classmethod
    def undisturbed(cls, steps):
        out = json.loads(run(COMMAND, "train", cls.job, "--set", f"steps={steps}", "--json"))
        note(f"undisturbed, on threads: {steps} steps in {out['seconds']:.1f} s, weights "
             f"{out['weights_hash']}")
        return out["weights_hash"]

    @classmethod
    def steps_of_seconds(cls, seconds):
        """So many that a job cannot be over before it is preempted, whatever the machine."""
        trial = json.loads(run(COMMAND, "train", cls.job, "--set", "steps=300", "--json"))
        return max(300, int(300 / trial["seconds"] * seconds))

    def setUp(self):
        self.out = self.folder / self.id().rsplit(".", 1)[1]
        self.log = self.out.with_suffix(".log")

    def submit(self, launch):
        script = self.folder / "job.sh"
        script.write_text(run(COMMAND, "train", self.job, "--set", f"steps={self.steps}",
                              "--print-sbatch", "--out", self.out))
        job = run("sbatch", "--parsable", "--nodes=2", "--ntasks=4", f"--output={self.log}",
                  f"--export=ALL,LAUNCH={launch}", script, cwd=self.folder).strip()
        note(f"job {job} submitted, which starts its ranks by {launch}")
        self.addCleanup(lambda: subprocess.run(["scancel", job], check=False))
        return job

    def wait_until(self, what, ready):
        end = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > end:
                self.fail(f"not within {PATIENCE} s: {what}\n{self.said()}")
            time.sleep(0.05)
        note(what)

    def said(self):
        return "\n".join(lines(self.log)) + "\n" + run("squeue", "--long")

    def wait_for_steps(self):
        steps = self.out / "steps.jsonl"
        self.wait_until("it trains", lambda: len(lines(steps)) > 20)

    def wait_for_requeue(self, job):
        self.wait_until("it has saved, ended with 85 and is queued again",
                        lambda: field(job, "Restarts") == "1")

    def wait_for_equal_weights(self, job):
        self.wait_until("it has finished", lambda: is_over(job))
        self.assertEqual(field(job, "JobState"), "COMPLETED", self.said())
        said = self.said()
        self.assertEqual(said.count("saved a checkpoint after step"), 1, said)
        self.assertEqual(said.count("exit code 85, queued again"), 1, said)
        story = json.loads((self.out / "run.json").read_text())
        self.assertEqual(story["launch"], "mpi")
        (resumed,) = story["resumed"]
        self.assertGreater(resumed["step"], 20)
        self.assertLess(resumed["step"], self.steps, "it was preempted after its last step")
        steps = [json.loads(line)["step"] for line in lines(self.out / "steps.jsonl")]
        self.assertEqual(steps, list(range(self.steps)))
        weights = json.loads((self.out / "result.json").read_text())["weights_hash"]
        self.assertEqual(weights, self.weights)
        note(f"preempted after step {resumed['step']} of {self.steps}, and the weights are "
             f"those of the undisturbed run: {weights}")

    def test_a_job_of_higher_priority_preempts_a_run_by_mpirun(self):
        job = self.submit("mpirun")
        self.wait_for_steps()
        other = run("sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive",
                    "--output=/dev/null", "--wrap", "srun sleep 1").strip()
        note(f"job {other} of higher priority submitted")
        self.wait_for_requeue(job)
        self.wait_until("the other job has run",
                        lambda: field(other, "JobState") == "COMPLETED")
        self.wait_for_equal_weights(job)

    def test_a_signal_stops_a_run_by_srun(self):
        plugins = subprocess.run(["srun", "--mpi=list"], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, check=False).stdout
        if "pmix" not in plugins:
            self.skipTest("this Slurm has no PMIx")
        job = self.submit("srun --mpi=pmix")
        self.wait_for_steps()
        run("scancel", "--signal=USR1", "--batch", job)  # as --signal=B:USR1@120 does
        note("USR1 sent to the batch script")
        self.wait_for_requeue(job)
        self.wait_for_equal_weights(job)


class Comparison(unittest.TestCase):
    def test_a_papers_job_ends_in_a_table_of_six_schemes_and_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            out, log = Path(folder) / "out", Path(folder) / "log"
            small = "--set data=generated:size=64 epochs=1 batch=8 check_every=0"
            job = subprocess.run(
                ["sbatch", "--parsable", "--nodes=2", "--ntasks=4", f"--output={log}",
                 "jobs/slurm/resnet20-cifar10.sh"], cwd=TREE, check=True, text=True,
                stdout=subprocess.PIPE, timeout=PATIENCE,
                env={**ENVIRONMENT, "TOPKNOT": COMMAND, "DATA": "", "OUT": str(out),
                     "ARGUMENTS": small}).stdout.strip()
            note(f"jobs/slurm/resnet20-cifar10.sh submitted as job {job}, with generated data")
            end = time.monotonic() + 2 * PATIENCE
            while not is_over(job) and time.monotonic() < end:
                time.sleep(0.2)
            said = log.read_text()
            self.assertEqual(field(job, "JobState"), "COMPLETED", said)
            self.assertIn("4 ranks on 2 hosts, started by mpirun", said)
            table = said[said.rindex("exposed"):]
            for scheme in ("dense", "topka", "topkdsa", "gtopk", "gaussiank", "oktopk"):
                self.assertRegex(table, rf"(?m)^\W*{scheme}\b", said)
            self.assertGreater((out / "report.html").stat().st_size, 10000)
            note("it ends with this table, and a page:\n" + table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
