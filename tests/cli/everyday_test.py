#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `topknot train` says when something is odd, takes long or is continued.

    everyday_test.py COMMAND SOURCE-TREE [MPIRUN]
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

from train_case import CLEAN, COMMAND, Case, lines


class Warnings(Case):
    """What was asked for and will not be so is said, and the run goes on."""

    def warned(self, *words, said, env=None):
        out = self.done(self.job, "--steps", "1", "--quiet", *words, env=env)
        self.assertEqual(out.stderr.count("topknot: warning: "), 1, out.stderr)
        self.assertIn(said, out.stderr)

    def test_a_rule_that_matches_nothing(self):
        self.warned("--set", "rules=nothing.*=dense", "density=0.5",
                    said="The rule nothing.*=dense matches no parameter; there are ")

    def test_a_density_that_rounds_to_nothing(self):
        self.warned("--density", "1e-9", said="A density of 1e-09 is less than one of the ")

    def test_a_variable_that_means_nothing(self):
        self.warned(env={"TOPKNOT_EPOCH": "3"}, said="The environment has TOPKNOT_EPOCH, which means "
                    "nothing to topknot; nearest is TOPKNOT_EPOCHS.")
        self.warned(env={"TOPKNOT_ZZZ": "3"}, said="The environment has TOPKNOT_ZZZ")

    def test_skipped_steps_are_no_savings(self):
        # The fake trainer's fourth step of 115 bytes a step or so is not finite.
        if Path(COMMAND).name != "topknot_fake":
            self.skipTest("this trainer's steps are finite")
        self.done(self.job, "--steps", "8", "--out", self.out)
        steps = lines(self.out / "steps.jsonl")
        result = json.loads((self.out / "result.json").read_text())
        self.assertEqual(result["skipped_steps"], 1)
        self.assertAlmostEqual(result["sent_bytes_per_step"], sum(s["sent_bytes"] for s in steps) / 7)


class DataFolders(Case):
    """`train` and `data` look for a set in the same places, and say where they looked."""

    def setUp(self):
        super().setUp()
        self.job.write_text(self.job.read_text().replace("generated:size=640", "cifar10"))
        self.cache = self.folder / "cache"
        self.env = {**CLEAN, "XDG_CACHE_HOME": str(self.cache)}

    def topknot(self, *words, **variables):
        return subprocess.run([COMMAND, *map(str, words)], env={**self.env, **variables}, cwd=self.folder,
                              capture_output=True, text=True, timeout=100, check=False)

    def put(self, folder):
        inside = folder / "cifar-10-batches-bin"
        inside.mkdir(parents=True)
        picture = bytes([3]) + bytes(3072)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            (inside / name).write_bytes(picture * 4)
        return folder

    def found(self, *words, **variables):
        out = self.topknot("train", self.job, "--model", "cnn", "--dry-run", "--json", *words, **variables)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)["job_as_run"]["folder"]

    def test_are_searched_in_order(self):
        self.put(self.cache / "topknot")
        self.assertEqual(self.found(), str(self.cache / "topknot"))
        self.put(self.folder / "data")
        self.assertEqual(self.found(), "data")
        shared = self.put(self.folder / "shared")
        self.assertEqual(self.found(TOPKNOT_DATA=str(shared)), str(shared))
        mine = self.put(self.folder / "mine")
        self.assertEqual(self.found("--data", mine, TOPKNOT_DATA=str(shared)), str(mine))
        unpacked = mine / "cifar-10-batches-bin"  # is taken as it is
        self.assertEqual(self.found("--data", unpacked), str(unpacked))
        said = self.topknot("data", "cifar10", "--json", TOPKNOT_DATA=str(shared))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(str(shared), json.loads(said.stdout)["folder"])

    def test_are_named_where_the_set_is_in_none(self):
        out = self.topknot("train", self.job, TOPKNOT_DATA="shared")
        self.assertEqual(out.returncode, 65)
        self.assertEqual(out.stderr, f"topknot: cifar10 is not in shared, data or {self.cache}/topknot; "
                                     "`topknot data cifar10` fetches it.\n")
        out = self.topknot("train", self.job, "--data", "mine")
        self.assertIn("cifar10 is not in mine; ", out.stderr)


class Silence(Case):
    """Whatever takes long says so within two seconds."""

    @unittest.skipUnless("fake" in COMMAND, "the fake trainer can be made slow")
    def test_is_broken_while_loading_evaluating_and_waiting(self):
        out = self.done(self.job, "--epochs", "1", env={"FAKE_SLOW": "2.2"})
        self.assertRegex(out.stderr, r"(?m)^loading generated:size=640 \(\d s\)$")
        self.assertRegex(out.stderr, r"(?m)^evaluating 50/100 \(\d s\)$")
        self.assertRegex(out.stderr, r"(?m)^in step \d+ of 10, waiting for rank 1 for \d s of 30 \(\d s\)$")
        self.assertNotRegex(self.done(self.job, "--epochs", "1").stderr, "loading|evaluating|waiting")

    def test_steps_say_how_much_is_left(self):
        out = self.done(self.job, "--set", "steps=260", "epochs=100",
                        env={"FAKE_STEP_MS": "10"} if "fake" in COMMAND else None)
        if "fake" in COMMAND:
            self.assertRegex(out.stderr, r"(?m)step \d+/260 .* s left$")
            self.assertNotIn("in step ", out.stderr)  # that they come is said already

    def test_too_many_workers_are_refused_by_memory(self):
        self.refused(self.job, "--workers", "1000", "--set", "model=mlp:hidden=4096" if "fake" not in COMMAND
                     else "model=mlp", said="are free here: take at most", env={"FAKE_PARAMETERS": "99999999"})

    def test_many_workers_on_few_cores_are_warned_of(self):
        if "fake" not in COMMAND:
            self.skipTest("it would take long")
        cores = os.cpu_count() or 1
        out = self.done(self.job, "--workers", str(9 * cores), "--steps", "1")
        self.assertRegex(out.stderr, rf"warning: {9 * cores} workers share {cores} cores, so a step "
                                     "takes 9 times as long")


class Resume(Case):
    def setUp(self):
        super().setUp()
        self.done(self.job, "--set", "epochs=2", "lr=0.02", "--steps", "10", "--out", self.out)

    def files(self):
        return {str(f): f.read_bytes() for f in self.out.rglob("*") if f.is_file()}

    def test_reads_the_job_from_the_folder(self):
        self.done("--resume", "--out", self.out, "--steps", "15")
        told = json.loads((self.out / "run.json").read_text())
        self.assertEqual((told["job"]["lr"], told["job"]["steps"], told["job"]["model"]), (0.02, 15, "mlp"))
        self.assertEqual(len(lines(self.out / "steps.jsonl")), 15)

    def test_of_a_finished_run_changes_nothing(self):
        before = self.files()
        for words in ((), (self.job, "--set", "lr=0.02", "steps=10")):
            out = self.done(*words, "--resume", "--out", self.out)
            self.assertIn("has ended after 10 steps, so there is nothing to resume", out.stderr)
        said = json.loads(self.done("--resume", "--out", self.out, "--json").stdout)
        self.assertEqual(said["steps"], 10)
        self.assertEqual(self.files(), before)

    def test_names_the_key_that_cannot_change(self):
        before = self.files()
        for setting, was in (("model=cnn", "model = mlp, and cnn"), ("seed=8", "seed = 1, and 8"),
                             ("data=generated:size=320", "data = generated:size=640, and generated:size=320"),
                             ("optimizer=adam", "optimizer = sgd:momentum=0.9, and adam")):
            self.refused("--resume", "--out", self.out, "--set", "steps=20", setting,
                         said=f"has {was} was asked for")
        self.assertEqual(self.files(), before)

    def test_says_what_has_changed(self):
        out = self.done("--resume", "--out", self.out, "--set", "steps=12", "lr=0.01",
                        "density=0.125", "local_steps=4")
        self.assertIn("lr was 0.02 and is 0.01 from here on.", out.stderr)
        self.assertIn("density was 0 and is 0.125 from here on.", out.stderr)

    def test_cannot_go_back(self):
        self.done("--resume", "--out", self.out, "--steps", "20")
        before = self.files()
        self.refused("--resume", "--out", self.out, "--steps", "5", said="after step 20 and the job ends after 5")
        self.assertEqual({k: v for k, v in self.files().items() if "lock" not in k and "writer" not in k},
                         {k: v for k, v in before.items() if "lock" not in k and "writer" not in k})

    def test_counts_all_steps_in_the_result(self):
        self.done("--resume", "--out", self.out, "--steps", "20")
        steps = lines(self.out / "steps.jsonl")
        self.assertEqual(len(steps), 20)
        applied = [one for one in steps if one["finite"]]
        result = json.loads((self.out / "result.json").read_text())
        self.assertAlmostEqual(result["sent_bytes_per_step"],
                               sum(one["sent_bytes"] for one in steps) / len(applied))
        self.assertEqual(result["skipped_steps"], len(steps) - len(applied))

    @unittest.skipIf("fake" in COMMAND, "the fake trainer does not settle")
    def test_counts_what_settled_before(self):
        words = (self.job, "--set", "settle=3", "local_steps=1", "checkpoint_every=4", "epochs=2", "--density", "0.1",
                 "--steps")
        whole = json.loads(self.done(*words, "8", "--json").stdout)
        out = self.folder / "settled"
        self.done(*words, "4", "--out", out)
        self.done("--resume", "--out", out, "--steps", "8")
        steps = [one["step"] for one in lines(out / "settlings.jsonl")]
        self.assertEqual(steps, [3, 4, 6, 8])  # at the end of the first part, too
        settled = sum(one["sent_bytes"] for one in lines(out / "settlings.jsonl"))
        sent = sum(one["sent_bytes"] for one in lines(out / "steps.jsonl"))
        result = json.loads((out / "result.json").read_text())
        self.assertAlmostEqual(result["sent_bytes_per_step"], (sent + settled) / 8)
        self.assertGreater(result["sent_bytes_per_step"], whole["sent_bytes_per_step"])  # one settling more

    def test_data_that_have_changed_are_refused(self):
        told = json.loads((self.out / "run.json").read_text())
        told["data_fingerprint"] = "0123456789abcdef"
        (self.out / "run.json").write_text(json.dumps(told))
        self.refused("--resume", "--out", self.out, "--steps", "20",
                     said="The data set is not the one that the run began with")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
