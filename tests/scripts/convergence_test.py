# SPDX-License-Identifier: Apache-2.0
"""bench/convergence.py with a stand-in for topknot, which leaves what `train` leaves."""

import collections
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import convergence_report  # noqa: E402
from convergence_records import Records  # noqa: E402
from convergence_runs import JOBS, Run, plan  # noqa: E402

# Appends its arguments to FAKE_CALLS. FAKE_BREAK has words of --set, FAKE_CODE what it ends with
# when these are there. Its HR@10 is best where lr is 0.008 for dense and 0.004 for the others.
FAKE = """\
#!%s -ISB
import json, os, pathlib, sys
assert not any(name.startswith("TOPKNOT_") for name in os.environ), "these would set keys"
words = sys.argv[1:]
with open(os.environ["FAKE_CALLS"], "a") as calls:
    calls.write(json.dumps(words) + "\\n")
keys = dict(word.split("=", 1) for word in words[words.index("--set") + 1:])
out = pathlib.Path(words[words.index("--out") + 1])
(out / "checkpoints" / "one").mkdir(parents=True, exist_ok=True)
code = 0
if any(word == os.environ.get("FAKE_BREAK") for word in words):
    code = int(os.environ["FAKE_CODE"])
    print("topknot: the first line")
    print("topknot: this one is broken")
    if code != 76:
        sys.exit(code)
best = 0.008 if keys["scheme"] == "dense" else 0.004
sent = 4000 if keys["scheme"] == "dense" else 100
value = 0.6 - 10 * abs(float(keys["lr"]) - best)
settled = 1000 if keys["scheme"] == "knot" else 0
steps = 250
(out / "run.json").write_text(json.dumps({
    "dense_bytes_per_step": 4000,
    "machine": {"cores": 2, "processor": "P", "memory_bytes": 2**30, "system": "Linux 6",
                "architecture": "x86_64", "host": "here"},
    "versions": {"topknot": "0.1.0", "commit": "abc", "compiler": "12"}}))
with open(out / "steps.jsonl", "w") as lines:
    for i in range(steps):
        loss = None if code else 1 / (1 + i)
        lines.write(json.dumps(
            {"step": i, "loss": loss, "sent_bytes": sent, "seconds": 0.1}) + "\\n")
(out / "epochs.jsonl").write_text(json.dumps(
    {"epoch": 0, "step": 100, "test_loss": 0.5, "metric": {"name": "HR@10", "value": 0.4}}) + "\\n")
(out / "result.json").write_text(json.dumps({
    "steps": steps, "metric": None if code else {"name": "HR@10", "value": value},
    "sent_bytes_per_step": sent + settled / steps, "skipped_steps": 0, "weights_hash": "00"}))
sys.exit(code)
""" % sys.executable


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.fake = self.folder / "topknot"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)
        self.records = Records(self.folder / "results")

    def run_it(self, *only, **env):
        out = subprocess.run(
            [sys.executable, "-B", ROOT / "bench" / "convergence.py", "--data", self.folder,
             "--topknot", self.fake, "--runs", self.folder / "runs",
             "--results", self.folder / "results", "--only", *only],
            env={**os.environ, "FAKE_CALLS": str(self.folder / "calls"), "TOPKNOT_LR": "7", **env},
            capture_output=True, text=True, timeout=60, check=False)
        return out.returncode, out.stdout + out.stderr

    def calls(self):
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Runs(Case):
    ONE = "ncf/knot-lr0.004-seed1"

    def test_a_finished_run_is_kept_in_short_and_not_made_again(self):
        self.assertEqual(self.run_it(self.ONE)[0], 0)
        record = self.records.find(Run("ncf", "knot", 0.004, 1))
        self.assertEqual(record["metric"], {"name": "HR@10", "value": 0.6})
        self.assertEqual((record["steps"], record["seconds"]), (250, 25))
        self.assertEqual((record["bytes"], record["settle_bytes"]), (26000, 1000))
        self.assertEqual(record["evaluations"], [[100, 0.4, 0.5, 10000]])
        self.assertEqual(record["curve"][0], [3, 0.611111, 300])
        self.assertEqual((len(record["curve"]), record["curve"][-1][0]), (84, 250))
        self.assertEqual((record["version"], record["commit"]), ("0.1.0", "abc"))
        self.assertEqual(record["machine"], "2 cores of P, 1 GiB, Linux x86_64, gcc 12")
        self.assertNotIn(str(self.folder), json.dumps(record))
        self.assertFalse((self.folder / "runs" / self.ONE / "checkpoints").exists())
        self.assertEqual(self.run_it(self.ONE)[0], 0)
        self.assertEqual(len(self.calls()), 1)

    def test_a_run_with_other_settings_is_made_again(self):
        self.run_it(self.ONE)
        path = self.records.path(Run("ncf", "knot", 0.004, 1))
        path.write_text(path.read_text().replace('"epochs=3"', '"epochs=2"'))
        self.assertEqual(self.run_it(self.ONE)[0], 0)
        self.assertEqual(len(self.calls()), 2)
        self.assertIsNotNone(self.records.find(Run("ncf", "knot", 0.004, 1)))

    def test_a_broken_run_is_reported_with_its_log_and_the_rest_goes_on(self):
        code, said = self.run_it("ncf/dense-lr0.004-seed1", self.ONE, FAKE_BREAK="scheme=dense",
                                 FAKE_CODE="70")
        self.assertEqual(code, 1, said)
        log = self.folder / "runs" / "ncf" / "dense-lr0.004-seed1.log"
        self.assertIn(f"ncf/dense-lr0.004-seed1 ended with 70; its log is {log}", said)
        self.assertIn("topknot: this one is broken", said)
        self.assertIn("the first line", log.read_text())
        self.assertIsNone(self.records.find(Run("ncf", "dense", 0.004, 1)))
        self.assertIsNotNone(self.records.find(Run("ncf", "knot", 0.004, 1)))

    def test_without_its_data_a_job_is_tried_once(self):
        code, said = self.run_it("ncf/dense", "an4/dense-lr0.002-seed1", FAKE_BREAK="epochs=3",
                                 FAKE_CODE="65")
        self.assertEqual(code, 1, said)
        self.assertEqual([call[1] for call in self.calls()],
                         ["ncf-movielens-small", "lstm-an4-small"])
        self.assertIn("all other runs of ncf are passed over", said)

    def test_an_interrupted_run_goes_on_unless_program_or_settings_changed(self):
        self.run_it(self.ONE, FAKE_BREAK="scheme=knot", FAKE_CODE="85")
        self.run_it(self.ONE, FAKE_BREAK="scheme=knot", FAKE_CODE="85")
        self.fake.write_text(FAKE + "# another\n")
        self.assertEqual(self.run_it(self.ONE)[0], 0)
        self.assertEqual(["--resume" in call for call in self.calls()], [False, True, False])

    def test_a_run_that_does_not_stay_finite_is_a_result(self):
        self.assertEqual(self.run_it(self.ONE, FAKE_BREAK="scheme=knot", FAKE_CODE="76")[0], 0)
        record = self.records.find(Run("ncf", "knot", 0.004, 1))
        self.assertEqual((record["metric"]["value"], record["final_loss"]), (None, None))
        self.assertIn("| not finite | - | - |", convergence_report.job_table(self.records, "ncf"))

    def test_others_run_at_the_best_rates_of_dense_and_knot(self):
        code, said = self.run_it("ncf/dense-lr*seed1", "ncf/knot-lr*seed1", "ncf/knot-gradients")
        self.assertEqual(code, 0, said)
        made = sorted(path.name for path in (self.folder / "results/ncf").glob("knot-gradients*"))
        self.assertEqual(made, ["knot-gradients-lr0.004-seed1.json",
                                "knot-gradients-lr0.008-seed1.json"])
        self.assertEqual(len(self.calls()), 12)

    def test_a_program_that_is_not_there_is_refused(self):
        self.fake.unlink()
        code, said = self.run_it(self.ONE)
        self.assertEqual(code, 1)
        self.assertIn("there is no program", said)
        self.assertNotIn("Traceback", said)


class Plan(unittest.TestCase):
    def test_every_run_comes_once_and_dense_and_knot_first(self):
        runs = list(plan(lambda job, variant: JOBS[job].rates[1 if variant == "dense" else 2]))
        names = [run.name for run in runs]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([run.variant for run in runs[:6]], ["dense"] * 3 + ["knot"] * 3)
        settings = {tuple(run.settings()) + (run.job,) for run in runs}
        self.assertEqual(len(settings), len(runs))

    def test_runs_whose_rate_is_not_known_are_named(self):
        told = list(plan(lambda job, variant: None))
        self.assertIn("ncf/knot-gradients", told)
        runs = collections.Counter(one.job for one in told if isinstance(one, Run))
        self.assertEqual(runs["ncf"], 17)
        self.assertEqual(runs["wikitext2-long"], 14, "dense and knot alone")


class Tables(Case):
    def put(self, job, variant, lr, seed, name, value, sent):
        run = Run(job, variant, lr, seed)
        self.records.write(run, {
            "variant": variant, "lr": lr, "seed": seed, "settings": run.settings(), "steps": 10,
            "metric": {"name": name, "value": value}, "final_loss": 0.25, "bytes": sent,
            "dense_bytes_per_step": 100, "evaluations": [], "curve": [[10, 0.25, sent]]})

    def test_of_shares_are_in_points(self):
        self.put("ncf", "dense", 0.004, 1, "HR@10", 0.6, 1000)
        self.put("ncf", "knot", 0.004, 1, "HR@10", 0.5875, 20)
        self.assertEqual(convergence_report.job_table(self.records, "ncf"), """\
`ncf-movielens-small`, 10 steps.

| variant | rate | seeds | HR@10 | against dense | training loss, last tenth | bytes |
|---|---|---|---|---|---|---|
| `dense` | **0.004** | 1 | 0.6000 | - | 0.2500 | 1/1.0 |
| `knot` | **0.004** | 1 | 0.5875 | -1.25 | 0.2500 | 1/50.0 |
""")

    def test_of_perplexities_are_in_per_cent_and_by_the_same_seeds(self):
        for seed, value in ((1, 400), (2, 500)):
            self.put("wikitext2", "dense", 0.004, seed, "perplexity", value, 1000)
        self.put("wikitext2", "dense", 0.008, 1, "perplexity", 440, 1000)
        self.put("wikitext2", "knot", 0.004, 2, "perplexity", 510, 25)
        table = convergence_report.job_table(self.records, "wikitext2")
        self.assertIn("| `dense` | **0.004** | 1, 2 | 450.0 +- 70.7 | - |", table)
        self.assertIn("| `dense` | 0.008 | 1 | 440.0 | +10.0 % |", table)
        self.assertIn("| `knot` | **0.004** | 2 | 510.0 | +2.0 % | 0.2500 | 1/40.0 |", table)
        self.assertIn("best rate of `dense` is at the edge", table)
        self.assertIn("| wikitext2 | perplexity | 450.0 +- 70.7 | 510.0 | +2.0 % | +2.0 % | 1/40.0 |",
                      convergence_report.summary_table(self.records))

    def test_leave_out_runs_whose_settings_are_not_todays(self):
        self.put("ncf", "dense", 0.004, 1, "HR@10", 0.6, 1000)
        path = self.records.path(Run("ncf", "dense", 0.004, 1))
        path.write_text(path.read_text().replace('"epochs=3"', '"epochs=2"'))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(convergence_report.job_table(self.records, "ncf"), "No runs yet.\n")
        self.assertIn(f"{path} is left out", said.getvalue())

    def test_are_written_between_their_marks(self):
        self.put("ncf", "dense", 0.004, 1, "HR@10", 0.6, 1000)
        page = self.folder / "page.md"
        page.write_text((ROOT / "docs" / "accuracy.md").read_text())
        convergence_report.write_tables(self.records, page)
        once = page.read_text()
        self.assertIn("| `dense` | **0.004** | 1 | 0.6000 |", once)
        convergence_report.write_tables(self.records, page)
        self.assertEqual(page.read_text(), once)
        self.assertNotIn("![", once)
        (self.folder / "pictures").mkdir()
        (self.folder / "pictures" / "convergence-ncf.svg").touch()
        convergence_report.write_tables(self.records, page)
        self.assertEqual(page.read_text().count("](pictures/convergence-ncf.svg)"), 1)
        page.write_text(once.replace("<!-- convergence: ncf -->", ""))
        with self.assertRaisesRegex(SystemExit, "0 places for convergence: ncf"):
            convergence_report.write_tables(self.records, page)


if __name__ == "__main__":
    unittest.main()
