# SPDX-License-Identifier: Apache-2.0
"""Is what `advise` and `--scheme auto` choose the right choice? Steps of training, with what was chosen and with
what was not."""

import functools
import json
import statistics
import tempfile
from pathlib import Path

from table import RANKS, Bench, Table, markdown, spread

ROUND = 4  # steps; knot in rounds exchanges once in so many


def run_of(bench: Bench, words: list, *arguments, out: Path) -> dict:
    """One run of `topknot train`: seconds of a step, the first round left out, and the scheme it was run with."""
    bench.run(*words, bench.topknot, "train", *arguments, "--no-evaluate", "--quiet", "--out", out)
    steps = [json.loads(line)["seconds"] for line in (out / "steps.jsonl").read_text().splitlines()]
    return {"seconds": statistics.fmean(steps[ROUND:]),
            "scheme": json.loads((out / "run.json").read_text())["job_as_run"]["scheme"]}


# ---- auto against dense, in turn

CASES = {"in rounds": [], "1 % on every step": ["--density", 0.01]}


def auto(network: str, bench: Bench) -> dict:
    with bench.network(network) as words, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        steps = ROUND * (3 if bench.quick else 15)
        runs: dict = {name: {"dense": [], "auto": []} for name in CASES}
        for i in range(bench.runs):
            for name, density in CASES.items():
                for scheme in runs[name]:
                    asked = density if scheme == "auto" else []
                    runs[name][scheme].append(run_of(
                        bench, words, "quickstart", "--scheme", scheme, *asked, "--set", f"steps={steps}",
                        out=Path(folder) / f"{name} {scheme} {i}".replace(" ", "-")))
    return {"runs": runs}


def auto_table(results: dict) -> dict[str, str]:
    rows = []
    for name, of in results["runs"].items():
        dense, chosen = ([1e3 * one["seconds"] for one in of[scheme]] for scheme in ("dense", "auto"))
        took = [one["scheme"] for one in of["auto"]]
        rows.append([name, ", ".join(f"`{one}` {took.count(one)} of {len(took)}" for one in sorted(set(took))),
                     spread(dense, 1), spread(chosen, 1),
                     f"{statistics.median(chosen) / statistics.median(dense):.2f}"])
    head = ["`--scheme auto`", "it took", "dense, ms a step", "auto, ms a step", "auto / dense"]
    return {"": f"The quick start, {RANKS} workers; runs in turn, medians and ranges.\n\n" + markdown(head, rows)}


# ---- the break-even of VGG-16, on both sides of it

SCHEMES = ["dense", "knot"]
SIDES = [0.25, 0.5, 2, 4]  # times the predicted rate
VGG = ["vgg16-cifar10", "--density", 0.01, "--set", "bucket_mb=25", "data=generated:size=640", "batch=8",
       "density_schedule=constant"]


def predicted(bench: Bench, folder: Path, steps: int) -> dict:
    """By the rates of these hosts, and the compute and buckets of a dense run between them."""
    with bench.cluster("1gbit") as hosts:
        run_of(bench, hosts, *VGG, f"steps={steps}", "--scheme", "dense", out=folder / "recorded")
        bench.run(*hosts, bench.topknot, "advise", "--measure", "--save", folder / "hosts.json", "--params", "5M",
                  "--bucket-mb", 0, "--workers", RANKS, "--method", "closed-form", "--scheme", ",".join(SCHEMES))
    said = bench.json(bench.topknot, "advise", "--run", folder / "recorded", "--calibration", folder / "hosts.json",
                      "--cores", 2, "--workers", RANKS, "--bandwidth", "1Gbps", "--scheme", ",".join(SCHEMES), "--json")
    return {"break_even_gbps": said["break_even_gbps"], "reason": said["reason"]}


def both_sides(bench: Bench) -> dict:
    steps = ROUND + (2 if bench.quick else 6)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        results = predicted(bench, folder, steps)
        points = []
        for side in SIDES[1:3] if bench.quick else SIDES:
            mbit = round(1000 * side * results["break_even_gbps"])
            with bench.cluster(f"{mbit}mbit") as hosts:
                points.append({"mbit": mbit, **{
                    scheme: [run_of(bench, hosts, *VGG, f"steps={steps}", "--scheme", scheme,
                                    out=folder / f"{mbit}-{scheme}-{i}")["seconds"]
                             for i in range(1 if bench.quick else 2)] for scheme in SCHEMES}})
    return {**results, "points": points}


def both_sides_table(results: dict) -> dict[str, str]:
    rows = []
    for point in results["points"]:
        dense, knot = (statistics.median(point[scheme]) for scheme in SCHEMES)
        below = point["mbit"] < 1000 * results["break_even_gbps"]
        rows.append([f"{point['mbit'] / 1000:.2g}", "`knot`" if below else "dense",
                     *(spread([1e3 * one for one in point[scheme]], 0) for scheme in SCHEMES),
                     f"{dense / knot:.2f}", "`knot`" if dense > 1.05 * knot else "dense"])
    head = ["Gb/s", "advised", "dense, ms a step", "`knot`, ms a step", "dense / `knot`", "right"]
    return {"": f"VGG-16, batch 8, 4 workers, `knot` with 1 % on every step, predicted break-even "
                f"{results['break_even_gbps']:.2g} Gb/s.\n\n" + markdown(head, rows)}


def turns(name: str, network: str, needs: tuple[str, ...], where: str, minutes: float) -> Table:
    return Table(name, f"Is --scheme auto slower than dense {where}?", "simulator.md", minutes, needs,
                 functools.partial(auto, network), auto_table)


TABLES = [
    turns("auto-threads", "threads", (), "on threads", 2),
    turns("auto-1gbit", "1gbit", ("root", "mpi"), "on four hosts at 1 Gb/s", 3),
    Table("break-even-hosts", "Does the break-even of `advise` hold between hosts?", "simulator.md", 6, ("root", "mpi"),
          both_sides, both_sides_table),
]
