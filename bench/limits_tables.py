# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/limits.md: up to which network sparse exchange pays, and how much of it is selecting."""

import os
import statistics

from table import RANKS, Bench, Missing, Table, markdown, spread

# ---- where dense wins, predicted

CASES = [("963k", "0.01s"), ("963k", "0.1s"), ("14.7M", "0.05s"), ("14.7M", "0.5s"), ("110M", "0.3s"), ("110M", "3s")]
WORKERS = [4, 16, 64]
SPARSE = ["knot", "knot-rounds"]
ANY_RATE = 1e4  # Gb/s, where `advise` stops searching


def break_even(bench: Bench) -> dict:
    """Arithmetic alone: the same figures on every machine."""
    found: dict = {}
    for scheme in SPARSE:
        for params, compute in CASES:
            for workers in WORKERS:
                said = bench.json(bench.topknot, "advise", "--params", params, "--compute", compute, "--workers", workers,
                                  "--scheme", f"dense,{scheme}", "--method", "closed-form", "--bandwidth", "100Mbps",
                                  "--json")
                found.setdefault(scheme, {}).setdefault(f"{params} {compute}", {})[str(workers)] = said["break_even_gbps"]
    return found


def break_even_table(results: dict) -> dict[str, str]:
    def cell(rate: float | None) -> str:
        if rate is None:
            return "-"
        return "any" if rate >= ANY_RATE else f"{rate:.2g}" if rate < 10 else f"{rate:.0f}"

    rows = [[params, compute.replace("s", " s"), *(cell(results[scheme][f"{params} {compute}"][str(workers)])
                                                   for scheme in SPARSE for workers in WORKERS)]
            for params, compute in CASES]
    head = ["weights", "compute", *(f"`{scheme}`, {workers} workers" for scheme in SPARSE for workers in WORKERS)]
    return {"": "Gb/s up to which the step is at least 5 % shorter than with `dense`:\n\n" + markdown(head, rows)}


# ---- how much of an exchange is selecting, measured


SIZES = [1 << 18, 1 << 20, 1 << 22, 1 << 24]
CORES = {"1": "0", "2": "0,1"}


def share(bench: Bench) -> dict:
    if (os.cpu_count() or 1) < 2:
        raise Missing("it compares one core with two, and there is one.")
    runs: list[dict] = []
    for _ in range(bench.runs):
        runs.append({})
        for cores, which in CORES.items():
            for n in SIZES[:2] if bench.quick else SIZES:
                said = bench.json("taskset", "-c", which, bench.topknot, "bench", "allreduce", "--workers", RANKS,
                                  "--n", n, "--density", 0.01, "--link", "1gbit,50us", "--steps", 10, "--warm-up", 3,
                                  "--json", "--collective", "dense", "knot")
                rows = {row["collective"]: row for row in said["results"]}
                runs[-1][f"{cores} {n}"] = {
                    "dense": rows["dense"]["seconds"],
                    **{key: rows["knot"][key] for key in ("seconds", "select_seconds", "wait_seconds")}}
    return {"runs": runs}


def share_table(results: dict) -> dict[str, str]:
    rows = []
    for where in results["runs"][0]:
        cores, n = where.split()
        of = [run[where] for run in results["runs"]]
        rows.append([f"{int(n):,}", cores, *(f"{1e3 * statistics.median(one[key] for one in of):.1f}"
                                             for key in ("dense", "seconds", "select_seconds", "wait_seconds")),
                     spread([100 * one["select_seconds"] / one["seconds"] for one in of], 0),
                     spread([one["dense"] / one["seconds"] for one in of], 1)])
    head = ["n", "cores", "`dense`, ms", "`knot`, ms", "selecting", "waiting", "selecting, %", "x faster than `dense`"]
    return {"": f"{RANKS} ranks as threads, 1 %, a modelled link of 1 Gb/s and 50 us.\n\n" + markdown(head, rows)}


TABLES = [
    Table("break-even", "Up to which network does sparse exchange pay? Predicted", "limits.md", 0.1, (),
          break_even, break_even_table, timed=False),
    Table("selection-share", "How much of an exchange is selecting, by length and cores?", "limits.md", 3, (),
          share, share_table),
]
