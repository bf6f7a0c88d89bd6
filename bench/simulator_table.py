# SPDX-License-Identifier: Apache-2.0
"""How far is the simulator from the clock on the wall?

Measures steps of each collective between four hosts, calibrates on the same hosts, and simulates the
same steps. Rates are measured for each n, for a vector that fits into a cache is worked on faster than
one that does not.
"""

import statistics
import tempfile
from pathlib import Path

from table import RANKS, Bench, Table, markdown

SCHEMES = ["dense", "topka", "gtopk", "oktopk", "spardl", "exdyna", "knot"]
BURST = 128 * 1024  # of scripts/cluster


def calibrate(bench: Bench, words: list, path: Path, n: int) -> None:
    bench.run(*words, bench.topknot, "advise", "--measure", "--save", path, "--params", n, "--bucket-mb", 0,
              "--workers", RANKS, "--method", "closed-form", "--scheme", ",".join(SCHEMES))


def on_the_wall(bench: Bench, words: list, n: int, density: float) -> dict[str, dict]:
    said = bench.json(*words, bench.topknot, "bench", "allreduce", "--n", n, "--density", density, "--steps", 10,
                      "--warm-up", 3, "--json", "--collective", *SCHEMES)
    return {row["collective"]: row for row in said["results"]}


def on_the_virtual_clock(bench: Bench, path: Path, n: int, density: float) -> dict[str, dict]:
    said = bench.json(bench.topknot, "simulate", "--calibration", path, "--burst", BURST, "--workers", RANKS,
                      "--params", n, "--bucket-mb", 0, "--coordinates", RANKS * n, "--density", density,
                      "--scheme", ",".join(SCHEMES), "--json")
    return {row["scheme"]: row for row in said["results"]}


def compare(bench: Bench) -> dict:
    points = []
    with bench.cluster("1gbit") as words, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "cluster.json"
        for n in [1 << 16] if bench.quick else [1 << 22]:
            calibrate(bench, words, path, n)
            for density in (0.001, 0.01, 0.05):
                wall = on_the_wall(bench, words, n, density)
                clock = on_the_virtual_clock(bench, path, n, density)
                points += [{"n": n, "density": density, "scheme": one,
                            "measured": wall[one]["seconds"], "simulated": clock[one]["exchange_seconds"],
                            "sent": wall[one]["sent_bytes_max"], "simulated_sent": clock[one]["bytes_per_rank"]}
                           for one in SCHEMES]
    return {"points": points}


def table(results: dict) -> dict[str, str]:
    """One row a scheme, and a density in three columns; points inside the burst have no error."""
    points, errors = results["points"], []
    n = points[0]["n"]
    densities = sorted({point["density"] for point in points})
    rows = []
    for scheme in SCHEMES:
        row = [f"`{scheme}`"]
        for density in densities:
            (point,) = [one for one in points if (one["scheme"], one["density"], one["n"]) == (scheme, density, n)]
            error = point["simulated"] / point["measured"] - 1
            in_burst = point["sent"] <= BURST
            errors += [] if in_burst else [abs(error)]
            row += [f"{1e3 * point['measured']:.1f}", f"{1e3 * point['simulated']:.1f}",
                    f"({100 * error:+.0f} %)" if in_burst else f"{100 * error:+.0f} %",
                    f"{point['sent'] / 1e6:.3f}, {point['simulated_sent'] / 1e6:.3f}"]
        rows.append(row)
    head = ["scheme"]
    for density in densities:
        head += [f"{100 * density:g} %: measured ms", "simulated", "error", "MB"]
    text = f"n = {n:,}, {RANKS} hosts at 1 Gb/s; megabytes measured and simulated.\n\n" + markdown(head, rows)
    if errors:
        text += (f"\nMedian error {100 * statistics.median(errors):.0f} %, worst {100 * max(errors):.0f} %, without "
                 "what fits into the burst (in brackets).\n")
    return {"": text}


TABLES = [Table("simulator", "How far is the simulator from the clock on the wall?", "simulator.md", 3,
                ("root", "mpi"), compare, table)]
