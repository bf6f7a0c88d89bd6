#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `simulate` and `advise` promise to those who read them."""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
LAUNCHER_WORDS = ("OMPI_", "PMI", "PMIX", "SLURM", "TOPKNOT_")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_WORDS)}
FIELDS = {"scheme", "ranks", "bandwidth_gbps", "density", "step_seconds", "exchange_seconds",
          "bytes_per_rank", "messages_per_rank", "speedup_vs_dense", "speedup_vs_dense_bf16", "method"}


def run(*words):
    return subprocess.run([COMMAND, *words], env=CLEAN, capture_output=True, text=True, timeout=120,
                          check=False)


def results(*words):
    out = run("simulate", *words, "--json")
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)["results"]


class Simulate(unittest.TestCase):
    def test_every_combination_has_a_row_with_what_is_promised(self):
        rows = results("--workers", "4,8", "--bandwidth", "1Gbps,10Gbps", "--params", "100K",
                       "--density", "0.01,0.001", "--scheme", "dense,knot,knot-rounds")
        self.assertEqual(len(rows), 2 * 2 * (1 + 2 + 1), "dense and rounds have one density")
        for row in rows:
            self.assertLessEqual(FIELDS, set(row))
            self.assertEqual(row["method"], "simulated")
            self.assertGreater(row["step_seconds"], 0)
        self.assertEqual({row["speedup_vs_dense"] for row in rows if row["scheme"] == "dense"}, {1.0})

    def test_all_schemes_at_a_thousand_workers_are_answered_in_closed_form(self):
        rows = results("--workers", "64,1024", "--bandwidth", "10Gbps", "--params", "110M",
                       "--compute", "0.3s")
        self.assertGreater(len(rows), 30)
        self.assertEqual({row["method"] for row in rows}, {"closed-form"}, "one method for all points")

    def test_the_same_question_has_the_same_answer(self):
        words = ["--workers", "4", "--params", "50K", "--scheme", "oktopk,spardl"]
        self.assertEqual(results(*words), results(*words))

    def test_csv_has_the_fields_of_json(self):
        out = run("simulate", "--params", "50K", "--scheme", "dense,topka", "--csv")
        rows = list(csv.DictReader(io.StringIO(out.stdout)))
        self.assertEqual([row["scheme"] for row in rows], ["dense", "topka"])
        self.assertLessEqual(FIELDS, set(rows[0]))

    def test_a_recorded_run_gives_buckets_compute_and_ready_times(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "run.json").write_text(json.dumps(
                {"parameters": 3000, "buckets": [{"coordinates": 1000}, {"coordinates": 2000}]}))
            Path(folder, "steps.jsonl").write_text('{"compute_seconds":0.2}\n{"compute_seconds":0.2}\n')
            rows = results("--run", folder, "--scheme", "dense", "--network", "100gbe")
            self.assertAlmostEqual(rows[0]["step_seconds"] - rows[0]["exposed_seconds"], 0.2)
            late = [{"ph": "X", "name": "forward, backward", "pid": 0, "ts": 0, "args": {"step": 1}},
                    {"ph": "X", "name": "bucket 0", "pid": 0, "ts": 1e5, "args": {"step": 1}},
                    {"ph": "X", "name": "bucket 1", "pid": 0, "ts": 5e5, "args": {"step": 1}}]
            Path(folder, "trace.json").write_text(json.dumps({"traceEvents": late}))
            rows = results("--run", folder, "--scheme", "dense", "--network", "100gbe")
            self.assertGreater(rows[0]["step_seconds"], 0.5)

    def test_a_job_gives_parameters_buckets_and_compute(self):
        rows = results("--job", "quickstart", "--scheme", "dense", "--network", "100gbe")
        self.assertAlmostEqual(rows[0]["step_seconds"] - rows[0]["exposed_seconds"], 0.25, places=3)
        rows = results("--job", "quickstart", "--scheme", "dense", "--compute", "0.5s")
        self.assertAlmostEqual(rows[0]["step_seconds"] - rows[0]["exposed_seconds"], 0.5, places=3)
        self.assertGreater(rows[0]["bytes_per_rank"], 0)

    def test_a_personality_changes_what_messages_cost(self):
        words = ["--params", "1M", "--scheme", "oktopk", "--workers", "8"]
        mpi, nccl = results(*words)[0], results(*words, "--personality", "nccl")[0]
        self.assertGreater(nccl["bytes_per_rank"], mpi["bytes_per_rank"])
        self.assertGreater(nccl["exchange_seconds"], mpi["exchange_seconds"])

    def test_ranks_that_share_cores_take_longer(self):
        words = ["--params", "1M", "--scheme", "knot", "--workers", "8"]
        own, shared = results(*words)[0], results(*words, "--cores", "2")[0]
        self.assertGreater(shared["exchange_seconds"], 1.5 * own["exchange_seconds"])
        self.assertEqual(results(*words, "--cores", "0")[0], own)

    def test_bad_words_get_a_sentence(self):
        for words, said in [
                (["--params", "1M", "--cores", "-1"], "--cores"),
                (["--params", "many"], "14.7M"),
                (["--params", "1M", "--bandwidth", "fast"], "100Mbps"),
                (["--params", "1M", "--latency", "-1us"], "20us"),
                (["--params", "1M", "--scheme", "knott"], "knot"),
                (["--params", "1M", "--network", "10gb"], "10gbe"),
                (["--params", "1M", "--density", "2"], "0..1"),
                (["--params", "1M", "--workers", "70000"], "65535"),
                (["--params", "1M", "--network", "wan", "--bandwidth", "1Gbps"], "one of them"),
                (["--params", "1M", "--run", "/nowhere"], "train --out"),
                ([], "--params")]:
            out = run("simulate", *words)
            self.assertNotEqual(out.returncode, 0, words)
            self.assertIn(said, out.stderr, words)
            self.assertEqual(out.stdout, "")


class Advise(unittest.TestCase):
    def test_a_slow_network_gets_a_sparse_scheme_and_a_fast_one_dense(self):
        chosen = {}
        for gbps in ("1Gbps", "100Gbps"):
            out = run("advise", "--workers", "16", "--bandwidth", gbps, "--params", "14.7M",
                      "--compute", "0.2s", "--method", "closed-form", "--json")
            self.assertEqual(out.returncode, 0, out.stderr)
            said = json.loads(out.stdout)
            self.assertLessEqual({"choice", "density", "break_even_gbps", "reason", "table"}, set(said))
            chosen[gbps] = said["choice"]
            self.assertTrue(1 < said["break_even_gbps"] < 100, said["reason"])
        self.assertEqual(chosen["100Gbps"], "dense")
        self.assertFalse(chosen["1Gbps"].startswith("dense"))

    def test_what_was_measured_is_kept_and_used_again(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = str(Path(folder, "rates.json"))
            out = run("advise", "--measure", "--save", kept, "--params", "1M", "--scheme", "dense,knot")
            self.assertEqual(out.returncode, 0, out.stderr)
            calibration = json.loads(Path(kept).read_text())
            cores = len(os.sched_getaffinity(0))
            self.assertEqual(calibration["cores"], cores if cores < 4 else 0, "4 ranks share them, or have their own")
            rates = calibration["rates"]
            self.assertEqual(set(rates), {"dense", "knot"})
            self.assertGreater(rates["knot"]["per_coordinate"] + rates["knot"]["per_byte"], 0)
            again = run("advise", "--calibration", kept, "--params", "1M", "--scheme", "dense,knot")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertIn("Gb/s", again.stdout)
            Path(kept).write_text("{}")
            broken = run("advise", "--calibration", kept, "--params", "1M")
            self.assertIn("no calibration", broken.stderr)

    def test_nodes_of_several_ranks_have_a_break_even(self):
        out = run("advise", "--params", "100K", "--compute", "0.1s", "--workers", "4", "--ranks-per-node", "2",
                  "--scheme", "dense,knot", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertGreater(json.loads(out.stdout)["break_even_gbps"], 0)

    def test_lists_are_for_simulate(self):
        out = run("advise", "--params", "1M", "--workers", "4,8")
        self.assertEqual(out.returncode, 2)
        self.assertIn("simulate", out.stderr)


if __name__ == "__main__":
    unittest.main()
