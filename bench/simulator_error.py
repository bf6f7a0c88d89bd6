#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far is the simulator from the clock on the wall?

Measures steps of each collective between four hosts of scripts/cluster, calibrates on the same
hosts, and simulates the same steps. One line of a Markdown table for each point, then the median
and the worst error. Needs root and a machine that does nothing else, for some ten minutes;
--n 4194304 alone takes two.

    sudo scripts/cluster up 4 1gbit
    sudo bench/simulator_error.py build/release/topknot [--n 4194304] [--density 0.01] [--write]
    sudo scripts/cluster down

Rates are measured for each n, for a vector that fits into a cache is worked on faster than one that
does not. --write puts the table into docs/simulator.md, between its two marks.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

SCHEMES = ["dense", "topka", "gtopk", "oktopk", "spardl", "exdyna", "knot"]
ROOT = Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "scripts" / "cluster"
PAGE = ROOT / "docs" / "simulator.md"
MARKS = ("<!-- bench/simulator_error.py -->\n", "<!-- end -->\n")
RANKS = 4
BURST = 128 * 1024  # of scripts/cluster


def said(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def calibrate(topknot, path, n):
    said(CLUSTER, "run", topknot, "advise", "--measure", "--save", path, "--params", str(n),
         "--bucket-mb", "0", "--workers", str(RANKS), "--method", "closed-form",
         "--scheme", ",".join(SCHEMES))


def measured(topknot, n, density, steps):
    out = said(CLUSTER, "run", topknot, "bench", "allreduce", "--n", str(n), "--density", str(density),
               "--steps", str(steps), "--warm-up", "3", "--json", "--collective", *SCHEMES)
    return {row["collective"]: row for row in json.loads(out)["results"]}


def simulated(topknot, path, n, density):
    out = said(topknot, "simulate", "--calibration", path, "--burst", str(BURST), "--workers", str(RANKS),
               "--params", str(n), "--bucket-mb", "0", "--coordinates", str(RANKS * n),
               "--density", str(density), "--scheme", ",".join(SCHEMES), "--json")
    return {row["scheme"]: row for row in json.loads(out)["results"]}


def row(n, density, scheme, wall, clock):
    """The line of a point, and its error; None where all of it fits into the burst."""
    seconds, predicted = wall["seconds"], clock["exchange_seconds"]
    sent = wall["sent_bytes_max"]
    error = predicted / seconds - 1
    in_burst = sent <= BURST
    line = (f"| {n} | {density} | {scheme} | {1e3 * seconds:.1f} | {1e3 * predicted:.1f} "
            f"| {100 * error:+.0f} %{' (in the burst)' if in_burst else ''} "
            f"| {sent / 1e6:.3f} | {clock['bytes_per_rank'] / 1e6:.3f} |")
    return line, None if in_burst else abs(error)


def write(lines):
    """Between the marks of the page."""
    page = PAGE.read_text()
    before, rest = page.split(MARKS[0])
    after = rest.split(MARKS[1], maxsplit=1)[1]
    PAGE.write_text(before + MARKS[0] + "\n".join(lines) + "\n" + MARKS[1] + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("topknot")
    parser.add_argument("--n", type=int, nargs="+", default=[1 << 22, 1 << 23, 1 << 24])
    parser.add_argument("--density", type=float, nargs="+", default=[0.001, 0.01, 0.05])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="the table goes into docs/simulator.md")
    asked = parser.parse_args()
    errors = []
    lines = []

    def tell(line):
        lines.append(line)
        print(line, flush=True)

    tell("| n | density | scheme | measured ms | simulated ms | error | MB sent | MB simulated |")
    tell("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cluster.json")
        for n in asked.n:
            calibrate(asked.topknot, path, n)
            for density in asked.density:
                wall = measured(asked.topknot, n, density, asked.steps)
                clock = simulated(asked.topknot, path, n, density)
                for scheme in SCHEMES:
                    line, error = row(n, density, scheme, wall[scheme], clock[scheme])
                    tell(line)
                    errors += [] if error is None else [error]
    if errors:
        tell(f"\nMedian error {100 * statistics.median(errors):.0f} %, worst {100 * max(errors):.0f} %.")
    if asked.write:
        write(lines)


if __name__ == "__main__":
    main()
