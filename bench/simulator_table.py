# SPDX-License-Identifier: Apache-2.0
"""How far is the simulator from the clock on the wall?

Measures steps of each collective between four hosts, calibrates on the same hosts, and simulates the
same steps: the network, the cores that the hosts share, and rates for each n, for a vector that fits into a
cache is worked on faster than one that does not. Sums are written over the gradient, as training does.
"""

import functools
import json
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
                      "--warm-up", 3, "--in-place", "--json", "--collective", *SCHEMES)
    return {row["collective"]: row for row in said["results"]}


def on_the_virtual_clock(bench: Bench, path: Path, n: int, density: float) -> dict[str, dict]:
    said = bench.json(bench.topknot, "simulate", "--calibration", path, "--burst", BURST, "--workers", RANKS,
                      "--params", n, "--bucket-mb", 0, "--coordinates", RANKS * n, "--density", density,
                      "--scheme", ",".join(SCHEMES), "--json")
    return {row["scheme"]: row for row in said["results"]}


def compare(n: int, bench: Bench) -> dict:
    points = []
    n = 1 << 16 if bench.quick else n
    with bench.cluster("1gbit") as words, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "cluster.json"
        calibrate(bench, words, path, n)
        calibration = json.loads(path.read_text())
        for density in (0.001, 0.01, 0.05):
            wall = on_the_wall(bench, words, n, density)
            clock = on_the_virtual_clock(bench, path, n, density)
            points += [{"n": n, "density": density, "scheme": one,
                        "measured": wall[one]["seconds"], "simulated": clock[one]["exchange_seconds"],
                        "sent": wall[one]["sent_bytes_max"], "simulated_sent": clock[one]["bytes_per_rank"]}
                       for one in SCHEMES]
    return {"points": points, "calibration": calibration}


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
    found = results["calibration"]
    text = (f"n = {n:,}, {RANKS} hosts at 1 Gb/s; megabytes measured and simulated. Calibrated: "
            f"{8e-9 * found['link']['bandwidth']:.2f} Gb/s of payload, {1e6 * found['link']['latency']:.0f} us, "
            f"{1e6 * found['link']['overhead']:.0f} us of a rank's own for a message, {found['cores']} cores for "
            "all ranks.\n\n"
            + markdown(head, rows))
    if errors:
        text += (f"\nMedian error {100 * statistics.median(errors):.0f} %, worst {100 * max(errors):.0f} %, without "
                 "what fits into the burst (in brackets).\n")
    return {"": text}


def at(name: str, n: int, minutes: float) -> Table:
    return Table(name, f"How far is the simulator from the clock on the wall, at n = {n:,}?", "simulator.md", minutes,
                 ("root", "mpi"), functools.partial(compare, n), table)


TABLES = [at("simulator", 1 << 22, 2), at("simulator-8m", 1 << 23, 3), at("simulator-16m", 1 << 24, 6)]
