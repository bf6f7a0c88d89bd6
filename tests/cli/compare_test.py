#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `topknot compare` promises: all combinations, once each, however often it is stopped.

    compare_test.py COMMAND [MPIRUN]

COMMAND trains nothing: 30 steps of a known metric.
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
MPIRUN = sys.argv.pop(1).split() if len(sys.argv) > 1 else []
CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith(("OMPI_", "PMI", "PMIX", "SLURM", "TOPKNOT_"))}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
JOB = 'model = "mlp"\ndata = "generated:size=640"\nepochs = 3\nworkers = 2\n'


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.out = self.folder / "out"
        self.job = self.folder / "small.toml"
        self.job.write_text(JOB)

    def run_it(self, *words, code=0, env=None, launcher=()):
        out = subprocess.run([*launcher, COMMAND, "compare", str(self.job), "--out", str(self.out),
                              *map(str, words)], env={**CLEAN, **(env or {})}, capture_output=True,
                             text=True, timeout=120, check=False)
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return out

    def refused(self, *words, said):
        out = self.run_it(*words, code=2)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        self.assertIn(said, out.stderr)
        self.assertFalse(self.out.exists())

    def runs(self):
        return sorted(one.parent.name for one in self.out.glob("*/result.json"))


class Combinations(Case):
    def test_each_is_a_run_and_a_row_and_the_page_has_all(self):
        out = self.run_it("--scheme", "dense,oktopk", "--density", "0.01,0.1")
        self.assertEqual(self.runs(), ["dense-seed1", "oktopk-0.01-seed1", "oktopk-0.1-seed1"])
        rows = [line.split("  ")[0] for line in out.stdout.splitlines() if line]
        self.assertEqual(rows[1:4], ["dense", "oktopk, density 0.01", "oktopk, density 0.1"])
        self.assertIn("report.html", out.stdout)
        job = json.loads((self.out / "oktopk-0.1-seed1" / "run.json").read_text())["job"]
        self.assertEqual((job["scheme"], job["density"], job["seed"]), ("oktopk", 0.1, 1))
        self.assertIn('"oktopk, density 0.1"', (self.out / "report.html").read_text())

    def test_seeds_share_a_row(self):
        out = self.run_it("--scheme", "knot", "--seeds", "3", "--target", "0.95", "--json")
        self.assertEqual(self.runs(), ["knot-seed1", "knot-seed2", "knot-seed3"])
        said = json.loads(out.stdout)
        self.assertEqual(said["metric"], "accuracy")
        (row,) = said["results"]
        self.assertEqual((row["run"], row["seeds"]), ("knot", 3))
        self.assertAlmostEqual(row["metric"], 1 - 1 / 30)
        self.assertAlmostEqual(row["seconds_to_target"], 0.2)
        self.assertAlmostEqual(row["step_seconds"], 0.010)
        self.assertAlmostEqual(row["exchange_seconds"], 0.001)  # busy - select - wait

    def test_a_scheme_may_have_parameters_with_commas(self):
        self.run_it("--scheme", "dense,oktopk:tau=32,values=bf16,knot:values=bf16")
        self.assertEqual(self.runs(), ["dense-seed1", "knot_values_bf16-seed1", "oktopk_tau_32_values_bf16-seed1"])
        job = json.loads((self.out / "oktopk_tau_32_values_bf16-seed1" / "run.json").read_text())["job"]
        self.assertEqual(job["scheme"], "oktopk:tau=32,values=bf16")

    def test_the_everyday_flags_of_train_are_taken(self):
        self.run_it("--scheme", "knot", "--steps", "7", "--lr", "0.02", "--seed", "4", "--data",
                    "generated:size=320", "--workers", "3", "--no-evaluate")
        job = json.loads((self.out / "knot-seed4" / "run.json").read_text())["job"]
        self.assertEqual((job["steps"], job["lr"], job["data"], job["workers"], job["evaluate"]),
                         (7, 0.02, "generated:size=320", 3, False))
        self.assertEqual(job["folder"], "")
        out = self.run_it("--scheme", "knot", "--steps", "7", "--set", "steps=8", code=2)
        self.assertIn("--steps 7 and --set steps=8 contradict each other", out.stderr)

    def test_a_run_that_ends_inside_an_epoch_has_its_metric(self):
        words = ("--scheme", "knot", "--steps", "4", "--json")
        (row,) = json.loads(self.run_it(*words).stdout)["results"]
        self.assertIsNone(row["metric"])  # this trainer has none before the first epoch's end
        result = self.out / "knot-seed1" / "result.json"
        told = json.loads(result.read_text())
        told["metric"] = {"name": "accuracy", "value": 0.5}
        result.write_text(json.dumps(told))
        (row,) = json.loads(self.run_it(*words).stdout)["results"]
        self.assertEqual(row["metric"], 0.5)
        self.assertIsNone(row["test_loss"])
        self.assertAlmostEqual(row["train_loss"], (2 + 1 + 2 / 3) / 3)  # the fourth is not finite

    def test_skipped_steps_are_no_savings_and_settling_counts(self):
        words = ("--scheme", "knot", "--steps", "4", "--json")
        (row,) = json.loads(self.run_it(*words).stdout)["results"]
        self.assertAlmostEqual(row["sent_bytes_per_step"], (100 + 101 + 102 + 103) / 3)
        run = self.out / "knot-seed1"
        self.assertEqual(json.loads((run / "result.json").read_text())["sent_bytes_per_step"],
                         row["sent_bytes_per_step"])
        (run / "settlings.jsonl").write_text('{"step": 2, "sent_bytes": 300}\n')
        (row,) = json.loads(self.run_it(*words).stdout)["results"]
        self.assertAlmostEqual(row["sent_bytes_per_step"], (100 + 101 + 102 + 103 + 300) / 3)

    def test_one_that_diverges_is_a_result(self):
        out = self.run_it("--scheme", "dense,knot", "--set", "lr=1e38")
        self.assertEqual(self.runs(), ["dense-seed1", "knot-seed1"])
        self.assertRegex(out.stdout, r"(?m)^knot +-")

    def test_what_cannot_be_is_refused_before_anything_is_trained(self):
        self.refused("--scheme", "dense,oktpok", said="nearest is oktopk")
        self.refused("--scheme", "dense,knot,dense", said="dense-seed1 is there twice")
        self.refused("--scheme", "dense", "--seeds", "0", said="from 1")
        self.refused("--scheme", "dense", "--density", "2", "--scheme", "knot", said="density")
        self.refused("--scheme", "dense", "--only", "2", said="none of the 1")


class GoesOn(Case):
    def test_what_is_done_is_not_trained_again(self):
        self.run_it("--scheme", "dense")
        before = (self.out / "dense-seed1" / "result.json").stat().st_mtime_ns
        out = self.run_it("--scheme", "dense,knot")
        self.assertIn("1/2 dense-seed1: done before", out.stderr)
        self.assertEqual((self.out / "dense-seed1" / "result.json").stat().st_mtime_ns, before)
        self.assertEqual(self.runs(), ["dense-seed1", "knot-seed1"])

    def test_a_run_of_another_job_is_not_taken_for_it(self):
        self.run_it("--scheme", "dense")
        out = self.run_it("--scheme", "dense", "--set", "epochs=4", code=2)
        self.assertIn("has epochs = 3, not 4", out.stderr)

    def test_interrupted_it_saves_and_the_same_command_continues(self):
        words = ["--scheme", "dense,knot", "--set", "epochs=40"]
        process = subprocess.Popen([COMMAND, "compare", str(self.job), "--out", str(self.out), *words],
                                   env={**CLEAN, "FAKE_STEP_MS": "5"}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        steps = self.out / "dense-seed1" / "steps.jsonl"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (steps.exists() and steps.read_text().count("\n") > 5):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 85, said)
        self.assertIn("the same command continues", said)
        self.assertEqual(self.runs(), [])
        out = self.run_it(*words)
        self.assertIn("dense-seed1: continues", out.stderr)
        self.assertEqual(self.runs(), ["dense-seed1", "knot-seed1"])
        taken = [json.loads(line)["step"] for line in steps.read_text().splitlines()]
        self.assertEqual(taken, list(range(400)))

    def test_tasks_of_an_array_train_one_each_and_then_there_is_a_page(self):
        words = ["--scheme", "dense,knot"]
        self.run_it(*words, "--only", "2")
        self.assertEqual(self.runs(), ["knot-seed1"])
        self.assertFalse((self.out / "report.html").exists())
        listed = self.run_it(*words, "--list").stdout.split("\n")
        self.assertEqual([line.split() for line in listed[:2]],
                         [["1", "dense-seed1", "to", "do"], ["2", "knot-seed1", "done"]])
        self.run_it(*words, "--only", "1")
        self.run_it(*words)
        self.assertTrue((self.out / "report.html").exists())


@unittest.skipUnless(MPIRUN, "built without MPI")
class UnderMpirun(Case):
    def test_the_processes_are_the_ranks_of_every_run(self):
        out = self.run_it("--scheme", "dense,knot", launcher=[*MPIRUN, "-n", "3"], env=AS_ROOT)
        self.assertEqual(self.runs(), ["dense-seed1", "knot-seed1"])
        self.assertEqual(json.loads((self.out / "knot-seed1" / "run.json").read_text())["workers"], 3)
        self.assertEqual(out.stdout.count("report.html"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
