#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `topknot report` promises: one page without a network, in which every plot is drawn.

    report_test.py COMMAND

COMMAND trains nothing, so that there are runs to show within a second.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith(("OMPI_", "PMI", "PMIX", "SLURM", "TOPKNOT_"))}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
JOB = 'model = "mlp"\ndata = "generated:size=640"\nepochs = 3\nworkers = 2\n'

# For every plot: how many of its points have the colour of a series under them.
LOOK = """<script>
const looked = {};
const rgb = (colour) => colour.match(/[0-9a-f]{2}/g).map((pair) => parseInt(pair, 16));
for (const chart of Object.values(Chart.instances)) {
  const sets = chart.data.datasets;
  const bars = chart.config.type === "bar";
  const colours = sets.map((set) => rgb(bars ? set.backgroundColor : set.borderColor));
  const ratio = chart.currentDevicePixelRatio;
  const {data, width} = chart.ctx.getImageData(0, 0, chart.canvas.width, chart.canvas.height);
  let points = 0, drawn = 0;
  sets.forEach((set, index) => chart.getDatasetMeta(index).data.forEach((point) => {
    const x = bars ? (point.x + point.base) / 2 : point.x;
    if (bars && Math.abs(point.x - point.base) < 1) return;
    let hit = false;
    for (let dx = -2; dx <= 2; ++dx)
      for (let dy = -2; dy <= 2; ++dy) {
        const at = 4 * (Math.round(point.y * ratio + dy) * width + Math.round(x * ratio + dx));
        hit ||= colours.some((colour) => data[at + 3] > 200 &&
          colour.every((part, c) => Math.abs(part - data[at + c]) < 40));
      }
    ++points;
    drawn += hit ? 1 : 0;
  }));
  looked[chart.canvas.closest("[data-plot]").dataset.plot] = [points, drawn];
}
document.body.dataset.looked = JSON.stringify(looked);
</script>
"""


def run(*words):
    return subprocess.run([COMMAND, *map(str, words)], env=CLEAN, capture_output=True, text=True,
                          timeout=120, check=False)


def open_page(page, fragment=""):
    """The document after its script has run, and what the console said."""
    with tempfile.TemporaryDirectory() as profile:
        out = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={profile}", "--enable-logging=stderr", "--dump-dom",
             page.as_uri() + fragment],
            capture_output=True, text=True, timeout=120, check=False)
    return out.stdout, [line for line in out.stderr.splitlines() if "CONSOLE" in line]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.addClassCleanup(cls.scratch.cleanup)
        job = cls.folder / "small.toml"
        job.write_text(JOB)
        cls.runs = []
        for scheme, seed in (("dense", 1), ("knot", 1), ("knot", 2)):
            out = cls.folder / f"{scheme}-{seed}"
            said = run("train", job, "--scheme", scheme, "--set", f"seed={seed}", "--out", out, "--analyze")
            if said.returncode != 0:
                raise AssertionError(said.stderr)
            cls.runs.append(out)
        cls.page = cls.folder / "page.html"

    def done(self, *words):
        out = run("report", *words)
        self.assertEqual(out.returncode, 0, out.stderr)
        return out

    def refused(self, *words, said, code):
        out = run("report", *words)
        self.assertEqual(out.returncode, code, out.stderr)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1, out.stderr)
        self.assertIn(said, out.stderr)

    def data(self):
        text = self.page.read_text()
        return json.loads(re.search(r'id="data">\n(.*?)\n</script>', text, re.DOTALL).group(1))


class Page(Case):
    def test_has_everything_in_it(self):
        self.done(*self.runs, "-o", self.page)
        text = self.page.read_text()
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:)', text), [])
        self.assertLess(len(text), 400_000)

    def test_names_runs_by_what_differs_and_groups_seeds(self):
        self.done(*self.runs, "-o", self.page)
        runs = self.data()["runs"]
        self.assertEqual([one["label"] for one in runs],
                         ["dense, seed 1", "knot, seed 1", "knot, seed 2"])
        self.assertEqual([one["group"] for one in runs], [0, 1, 1])
        self.assertEqual(runs[0]["configuration"]["job.epochs"], 3)

    def test_shows_who_sent_to_whom_and_where_the_time_went(self):
        self.done(self.runs[0], "-o", self.page)
        one = self.data()["runs"][0]
        self.assertEqual(one["traffic"]["bytes"], [[0, 100], [200, 0]])  # a step
        self.assertEqual(one["traffic"]["messages"], [[0, 2], [2, 0]])
        self.assertEqual(one["traffic"]["waits"], [[0, 0.001], [0.001, 0]])
        self.assertEqual(one["traffic"]["note"], "rank 1 sent most, 1.33 times the mean")
        step = one["step"]
        self.assertAlmostEqual(step["data"] + step["forward"] + step["backward"], step["compute"])
        self.assertAlmostEqual(step["compute"] + step["exposed"] + step["optimizer"] + step["rest"],
                               step["seconds"])
        self.assertEqual(one["curve"]["threshold"][0], 0.25)
        self.assertEqual(one["curve"]["residual"][0], 3)

    def test_shows_time_on_another_network(self):
        self.done(*self.runs, "-o", self.page, "--network", "wan")
        data = self.data()
        self.assertEqual(data["network"], "100 Mb/s at 50 ms")
        dense = data["runs"][0]
        # Two buckets round a ring of two ranks: 4 latencies of 50 ms on each of 30 steps.
        self.assertGreater(dense["network_seconds"], 30 * 4 * 0.05)
        self.assertLess(dense["network_seconds"], 30 * 4 * 0.06)
        self.assertEqual(dense["curve"]["network_seconds"][-1], dense["network_seconds"])
        self.done(*self.runs, "-o", self.page, "--network", "400gbe")
        # Of 5 ms of exchange 3 were waits and 3 were hidden: without waits nothing is exposed.
        self.assertAlmostEqual(self.data()["runs"][0]["network_seconds"], 30 * 0.008, places=3)
        self.refused(self.runs[0], "-o", self.page, "--network", "1gb", said="nearest is 1gbe", code=2)

    def test_says_when_a_value_was_reached(self):
        self.done(self.runs[0], "-o", self.page, "--target", "0.95")
        one = self.data()["runs"][0]  # accuracies 0.9, 0.95, 0.967 after 10, 20, 30 steps of 10 ms
        self.assertAlmostEqual(one["seconds_to_target"], 0.2)
        self.assertEqual(one["bytes_to_target"], sum(range(100, 120)))
        self.done(self.runs[0], "-o", self.page, "--target", "0.99")
        self.assertIsNone(self.data()["runs"][0]["seconds_to_target"])

    def test_a_run_under_way_is_shown_without_its_torn_line(self):
        copy = self.folder / "torn"
        shutil.copytree(self.runs[0], copy)
        (copy / "result.json").unlink()
        with (copy / "steps.jsonl").open("a") as file:
            file.write('{"step":30,"lo')
        self.done(copy, "-o", self.page)
        one = self.data()["runs"][0]
        self.assertEqual((one["steps"], one["finished"]), (30, False))

    def test_a_title_cannot_leave_its_place(self):
        self.done(self.runs[0], "-o", self.page, "--title", "</script><b>x")
        self.assertNotIn("</script><b>", self.page.read_text())
        self.assertEqual(self.data()["title"], "</script><b>x")

    def test_what_is_no_run_is_refused_and_no_page_written(self):
        page = self.folder / "none.html"
        self.refused(self.folder / "nowhere", "-o", page, said="There is no run in", code=65)
        broken = self.folder / "broken"
        shutil.copytree(self.runs[0], broken)
        (broken / "steps.jsonl").write_text('{"step":0}\nnonsense\n{"step":2}\n')
        self.refused(broken, "-o", page, said="steps.jsonl:2 is damaged", code=65)
        self.refused(self.runs[0], "-o", self.folder / "no" / "page.html", said="cannot be written",
                     code=74)
        self.assertFalse(page.exists())


@unittest.skipUnless(CHROMIUM, "there is no Chromium here")
class InABrowser(Case):
    def test_every_plot_is_drawn_and_the_console_is_silent(self):
        self.done(*self.runs, "-o", self.page)
        if "no plots" in run("report", self.runs[0], "-o", self.folder / "x.html").stderr:
            self.skipTest("this command was built without Chart.js")
        copy = self.folder / "looked.html"
        copy.write_text(self.page.read_text().replace("</body>", LOOK + "</body>"))
        for theme in ("#light", "#dark"):
            document, console = open_page(copy, theme)
            self.assertEqual(console, [])
            looked = json.loads(html.unescape(re.search(r'data-looked="([^"]*)"', document).group(1)))
            plots = re.findall(r'<canvas[^>]* aria-label', document)
            self.assertEqual(len(looked), len(plots))
            for name in ("traffic-of-dense-seed-1", "waits-of-knot-seed-2"):
                self.assertIn(f'data-plot="{name}"', document)
            for name in ("metric-steps", "metric-bytes", "metric-time", "loss-steps", "loss-bytes",
                         "loss-time", "step-time", "exchange-time", "sent", "threshold", "residual"):
                points, drawn = looked[name]
                self.assertGreater(points, 2, name)
                self.assertEqual(drawn, points, name)

    def test_png_leaves_a_picture_of_each_plot(self):
        pictures = self.folder / "pictures"
        out = self.done(self.runs[0], "-o", self.page, "--png", pictures, "--plot", "loss-steps")
        self.assertEqual([one.name for one in pictures.iterdir()], ["loss-steps.png"])
        data = (pictures / "loss-steps.png").read_bytes()
        self.assertTrue(data.startswith(b"\x89PNG"))
        self.assertIn("loss-steps.png", out.stdout)
        self.refused(self.runs[0], "-o", self.page, "--png", pictures, "--plot", "los-steps",
                     said="nearest is loss-steps", code=2)


class WithoutABrowser(Case):
    def test_png_says_what_is_missing(self):
        out = subprocess.run([COMMAND, "report", str(self.runs[0]), "-o", str(self.page), "--png",
                              str(self.folder / "p")], env={**CLEAN, "PATH": "/nowhere"},
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(out.returncode, 2)
        self.assertIn("there is none here", out.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
