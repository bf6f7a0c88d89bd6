# SPDX-License-Identifier: Apache-2.0
"""`train --scheme auto` as a user sees it."""

import json
import unittest

from train_case import AS_ROOT, MPIRUN, Case, run


class Auto(Case):
    def record(self):
        return json.loads((self.out / "run.json").read_text())

    def test_says_and_records_what_it_took_and_why(self):
        ended = run(self.job, "--scheme", "auto", "--density", 0.01, "--steps", 3,
                    "--set", "bucket_mb=0.1", "--out", self.out)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout + ended.stderr, r"auto takes (dense|knot)")
        record = self.record()
        self.assertEqual(record["scheme"], "auto")
        self.assertIn(record["job_as_run"]["scheme"], ["dense", "knot"])
        self.assertEqual(len(record["auto"]), 3)
        for bucket in record["auto"]:
            self.assertGreater(bucket["dense_seconds"], 0)
            self.assertIn(bucket["chosen"], ["dense", "sparse"])
        for bucket in record["buckets"]:
            self.assertIn(bucket["scheme"], ["dense", "knot"])

    def test_a_resumed_run_keeps_what_was_decided(self):
        run(self.job, "--scheme", "auto", "--steps", 3, "--out", self.out)
        before = self.record()
        ended = run("--resume", "--steps", 6, "--out", self.out)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("as was decided when the run began", ended.stdout + ended.stderr)
        self.assertEqual(self.record()["auto"], before["auto"])
        self.assertEqual(self.record()["job_as_run"]["scheme"], before["job_as_run"]["scheme"])

    def test_a_dry_run_measures_nothing_and_says_so(self):
        ended = run(self.job, "--scheme", "auto", "--dry-run")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("auto decides when training starts", ended.stdout)

    def test_bad_combinations_are_refused_in_one_sentence(self):
        for words, part in [(["--collective", "dense"], "leaves no choice"),
                            (["--scheme", "auto:taste=sweet"], "taste")]:
            ended = run(self.job, "--scheme", "auto", *words) if "--scheme" not in words \
                else run(self.job, *words)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(part, ended.stderr)
            self.assertEqual(ended.stderr.strip().count("\n"), 0, ended.stderr)

    def test_runs_under_mpirun(self):
        if not MPIRUN:
            self.skipTest("there is no mpirun")
        ended = run(self.job, "--scheme", "auto", "--density", 0.05, "--steps", 3,
                    "--out", self.out, env=AS_ROOT, launcher=[*MPIRUN, "-n", "3"])
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.record()["workers"], 3)
        self.assertTrue(self.record()["auto"])


if __name__ == "__main__":
    unittest.main()
