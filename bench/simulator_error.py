#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far is the simulator from the clock on the wall?

Measures steps of each collective between four hosts of scripts/cluster, calibrates on the same
hosts, and simulates the same steps. One line of a Markdown table for each point, then the median
and the worst error. Needs root and a machine that does nothing else.

    sudo scripts/cluster up 4 1gbit
    sudo bench/simulator_error.py build/release/topknot [--n 4194304] [--density 0.01]
    sudo scripts/cluster down
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

SCHEMES = ["dense", "topka", "gtopk", "oktopk", "spardl", "exdyna", "knot"]
CLUSTER = Path(__file__).resolve().parent.parent / "scripts" / "cluster"
RANKS = 4
BURST = 128 * 1024  # of scripts/cluster


def said(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def calibrate(topknot, path):
    said(CLUSTER, "run", topknot, "advise", "--measure", "--save", path, "--params", "4M",
         "--workers", str(RANKS), "--scheme", ",".join(SCHEMES))


def measured(topknot, n, density, steps):
    out = said(CLUSTER, "run", topknot, "bench", "allreduce", "--n", str(n), "--density", str(density),
               "--steps", str(steps), "--warm-up", "3", "--json", "--collective", *SCHEMES)
    return {row["collective"]: row for row in json.loads(out)["results"]}


def simulated(topknot, path, n, density):
    out = said(topknot, "simulate", "--calibration", path, "--burst", str(BURST), "--workers", str(RANKS),
               "--params", str(n), "--bucket-mb", "0", "--coordinates", str(RANKS * n),
               "--density", str(density), "--scheme", ",".join(SCHEMES), "--json")
    return {row["scheme"]: row for row in json.loads(out)["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("topknot")
    parser.add_argument("--n", type=int, nargs="+", default=[1 << 22, 1 << 23, 1 << 24])
    parser.add_argument("--density", type=float, nargs="+", default=[0.001, 0.01, 0.05])
    parser.add_argument("--steps", type=int, default=10)
    asked = parser.parse_args()
    errors = []
    print("| n | density | scheme | measured ms | simulated ms | error | MB sent | MB simulated |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cluster.json")
        calibrate(asked.topknot, path)
        for n in asked.n:
            for density in asked.density:
                wall = measured(asked.topknot, n, density, asked.steps)
                clock = simulated(asked.topknot, path, n, density)
                for scheme in SCHEMES:
                    seconds = wall[scheme]["seconds"]
                    predicted = clock[scheme]["exchange_seconds"]
                    sent = wall[scheme]["sent_bytes_max"]
                    in_burst = sent <= BURST
                    error = predicted / seconds - 1
                    if not in_burst:
                        errors.append(abs(error))
                    print(f"| {n} | {density} | {scheme} | {1e3 * seconds:.1f} | {1e3 * predicted:.1f} "
                          f"| {100 * error:+.0f} %{' (in the burst)' if in_burst else ''} "
                          f"| {sent / 1e6:.3f} | {clock[scheme]['bytes_per_rank'] / 1e6:.3f} |", flush=True)
    print(f"\nmedian error {100 * statistics.median(errors):.0f} %, worst {100 * max(errors):.0f} %")


if __name__ == "__main__":
    main()
