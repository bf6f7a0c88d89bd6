# SPDX-License-Identifier: Apache-2.0
"""./run bench: the tables of docs/, their records and their places in the pages.

usage: bench_tables_test.py TOPKNOT
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import table  # noqa: E402
import tables  # noqa: E402

TOPKNOT = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build" / "release" / "topknot")


def run_bench(*words) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-B", ROOT / "bench" / "tables.py", "--topknot", TOPKNOT, *words],
                          capture_output=True, text=True, timeout=200)


class Folders(unittest.TestCase):
    """Pages and records of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.docs, self.results = Path(scratch.name) / "docs", Path(scratch.name) / "results"
        shutil.copytree(ROOT / "docs", self.docs)
        self.results.mkdir()
        self.words = ["--docs", self.docs, "--results", self.results]


class Bench(Folders):
    def test_lists_every_table_with_what_it_takes(self):
        said = run_bench()
        self.assertEqual(said.returncode, 0, said.stderr)
        for name, one in tables.TABLES.items():
            self.assertRegex(said.stdout, rf"(?m)^{name} +[0-9.e+]+ .*{one.question[:20]}")

    def test_pages_are_as_the_records_have_them(self):
        said = run_bench("--check")
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_every_table_has_its_place(self):
        for name, one in tables.TABLES.items():
            self.assertIn(f"<!-- {name}", (ROOT / "docs" / one.page).read_text())

    def test_measures_keeps_a_record_and_writes_the_page(self):
        said = run_bench("growth-predicted", *self.words)
        self.assertEqual(said.returncode, 0, said.stderr)
        record = json.loads((self.results / "growth-predicted.json").read_text())
        self.assertIn("simulate --params 110M", record["commands"][-1])
        self.assertTrue(record["commit"] and record["machine"])
        self.assertEqual(run_bench("--check", *self.words).returncode, 0)
        record["results"]["workers"]["knot"]["4"][0] *= 2
        (self.results / "growth-predicted.json").write_text(json.dumps(record))
        said = run_bench("--check", *self.words)
        self.assertEqual(said.returncode, 1)
        self.assertIn("growth.md is not as its records have it", said.stderr)
        self.assertEqual(run_bench("--write", *self.words).returncode, 0)
        self.assertEqual(run_bench("--check", *self.words).returncode, 0)

    def test_quick_keeps_nothing(self):
        before = (self.docs / "results.md").read_text()
        said = run_bench("--quick", "select", "step", "wire", *self.words)
        self.assertEqual(said.returncode, 0, said.stderr)
        for text in ("| `topk` |", "a bucket's whole step", "| `rice` | `i2` |"):
            self.assertIn(text, said.stdout)
        self.assertEqual(list(self.results.iterdir()), [])
        self.assertEqual((self.docs / "results.md").read_text(), before)

    def test_what_cannot_be_measured_is_said_and_the_rest_is(self):
        said = run_bench("--quick", "recorded", "step", *self.words)
        self.assertEqual(said.returncode, 1)
        self.assertIn("recorded: it trains on real data: --data DIR", said.stderr)
        self.assertIn("a bucket's whole step", said.stdout)

    def test_an_unknown_table_is_refused(self):
        said = run_bench("selct")
        self.assertEqual(said.returncode, 2)
        self.assertIn("there is no table selct; there are select,", said.stderr)


class Records(unittest.TestCase):
    def test_say_when_the_machine_was_not_idle(self):
        one = tables.TABLES["select"]
        record = {"commit": "abc", "machine": "2 cores", "load": 0.1}
        self.assertIn("2 cores, idle.", table.caption(one, record))
        self.assertIn("load 3, so not idle", table.caption(one, {**record, "load": 3.0}))
        self.assertIn("`./run bench --runs 3 ", table.caption(one, {**record, "runs": 3}))
        self.assertNotIn("--runs", table.caption(one, {**record, "runs": table.RUNS}))

    def test_a_spread_is_the_median_and_the_range(self):
        self.assertEqual(table.spread([3.0, 1.0, 2.0]), "2.00 (1.00-3.00)")
        self.assertEqual(table.spread([3.0], 1), "3.0")

    def test_a_page_without_the_place_is_refused(self):
        for page in ("", "<!-- a -->\n<!-- end --><!-- a -->\n<!-- end -->"):
            with self.assertRaisesRegex(SystemExit, "[02] places for a"), contextlib.redirect_stderr(io.StringIO()):
                table.put(Path("page.md"), page, "a", "text")


class Limits(unittest.TestCase):
    def test_the_line_carries_94_per_cent_of_its_rate(self):
        self.assertAlmostEqual(table.line_seconds(0.94e9 / 8, "1gbit"), 1.0)
        self.assertAlmostEqual(table.line_seconds(0.94e9 / 8, "100mbit"), 10.0)

    def test_ratios_are_of_the_same_round(self):
        import training_tables
        modes = {"none": {"seconds": [1, 2], "sent_bytes": 0}, "dense": {"seconds": [2, 8], "sent_bytes": 1e6}}
        text = training_tables.ddp_table("1gbit", {"modes": modes, "batch": 8, "ranks": 4, "torch": "2"})[""]
        self.assertIn("| DDP dense | 5,000 (2,000-8,000) | 3.00 (2.00-4.00) |", text)

    def test_steps_to_a_target_are_the_first_evaluation_that_reaches_it(self):
        import time_tables
        record = {"metric": {"name": "accuracy"}, "evaluations": [[10, 0.5, 1, 1], [20, 0.9, 1, 1], [30, 0.95, 1, 1]]}
        self.assertEqual(time_tables.steps_to(0.9, record), 20)
        self.assertIsNone(time_tables.steps_to(0.96, record))
        record["metric"]["name"] = "perplexity"
        self.assertEqual(time_tables.steps_to(0.9, record), 10)


if __name__ == "__main__":
    unittest.main()
