# SPDX-License-Identifier: Apache-2.0
"""Tables of time to a metric: steps that the runs of bench/convergence.py took, times the length of a step on
a slow network. By the law a run has the same bits on threads and on hosts, so they are the same runs."""

import functools
import json
import statistics
import tempfile
from pathlib import Path

import picture
from convergence_records import Records, lower_is_better
from convergence_report import DRAWN, LIMITS, Rows
from convergence_runs import JOBS
from table import ROOT, Bench, Table, markdown, spread
from training_tables import trained

ROUND = 4  # steps; knot exchanges once in so many
ROUNDS = 5  # that are timed, after one that is not


def target_of(rows: Rows) -> float | None:
    """What a run must reach: dense's metric at its end, less what it may be behind."""
    group = rows.of("dense")
    if not group:
        return None
    value = group[min(group)]["metric"]["value"]
    limit = LIMITS[rows.metric()] / 100
    if rows.metric() == "perplexity":
        return value * (1 + limit)
    return value + limit if lower_is_better(rows.metric()) else value - limit


def steps_to(target: float, record: dict) -> int | None:
    sign = 1 if lower_is_better(record["metric"]["name"]) else -1
    return next((step for step, value, *_ in record["evaluations"]
                 if value is not None and sign * value <= sign * target), None)


def step_seconds(bench: Bench, hosts: list, record: dict) -> list[float]:
    """Of a round of steps each, on the cluster."""
    keys = dict(one.split("=", 1) for one in record["settings"])
    keys.update(steps=str(ROUND * (ROUNDS + 1)), evaluate="false", checkpoint_every="0")
    del keys["workers"]
    data = [] if record["job"] == "quickstart" else ["--data", bench.data_folder()]
    steps = trained(bench, hosts, JOBS[record["job"]].name, *data, "--set", *(f"{k}={v}" for k, v in keys.items()))
    seconds = [one["seconds"] for one in steps]
    return [statistics.fmean(seconds[first:first + ROUND]) for first in range(ROUND, len(seconds), ROUND)]


def times(network: str, bench: Bench) -> dict:
    records = Records(ROOT / "bench" / "results" / "convergence")
    jobs: dict = {}
    with bench.cluster(network) as hosts:
        for job in ["quickstart"] if bench.quick else JOBS:
            rows = Rows(records, job)
            target = target_of(rows)
            if target is None:
                continue
            found = {name: group[min(group)] for name in DRAWN if (group := rows.of(name))}
            jobs[job] = {"metric": rows.metric(), "target": target, "variants": {
                name: {"steps": steps_to(target, one), "seconds": step_seconds(bench, hosts, one)}
                for name, one in found.items()}}
    return {"network": network, "jobs": jobs}


def minutes(variant: dict) -> float | None:
    return None if variant["steps"] is None else variant["steps"] * statistics.median(variant["seconds"]) / 60


def times_table(results: dict) -> dict[str, str]:
    rows = []
    for job, about in results["jobs"].items():
        dense = minutes(about["variants"]["dense"])
        for name, variant in about["variants"].items():
            took = minutes(variant)
            rows.append([f"{job}: {about['metric']} {about['target']:.4g}", f"`{name}`",
                         "not reached" if took is None else f"{variant['steps']:,}",
                         spread([1e3 * one for one in variant["seconds"]], 0),
                         "-" if took is None else f"{took:.1f}", "-" if took is None else f"{dense / took:.2f}"])
    head = ["to reach", "variant", "steps", "ms a step", "minutes", "x faster than dense"]
    return {"": markdown(head, rows)}


# ---- the picture of the README


SCHEMES = ["dense", "knot"]
EPOCHS = 6


def over_time(bench: Bench) -> dict:
    settings = ["epochs=2", "data=generated:size=1280"] if bench.quick else [f"epochs={EPOCHS}"]
    curves = {}
    with bench.cluster("1gbit") as hosts:
        for scheme in SCHEMES:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                out = Path(folder) / "run"
                bench.run(*hosts, bench.topknot, "train", "quickstart", "--scheme", scheme, "--quiet", "--out", out,
                          "--set", *settings)
                curves[scheme] = curve(out)
    return curves


def curve(out: Path) -> dict:
    """Evaluations over the seconds of the steps before them; the time of evaluating is left out."""
    seconds, sent = [0.0], [0.0]
    for line in (out / "steps.jsonl").read_text().splitlines():
        seconds.append(seconds[-1] + json.loads(line)["seconds"])
        sent.append(sent[-1] + json.loads(line)["sent_bytes"])
    points = []
    for line in (out / "epochs.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one.get("metric"):
            points.append([round(seconds[one["step"]], 2), one["metric"]["value"]])
    return {"points": points, "steps": len(seconds) - 1, "bytes": sent[-1]}


def over_time_text(curves: dict) -> dict[str, str]:
    rows = [[f"`{name}`", f"{one['points'][-1][1]:.4f}", f"{one['points'][-1][0]:.0f}",
             f"{1e3 * one['points'][-1][0] / one['steps']:.0f}", f"{one['bytes'] / 1e6:,.0f}"]
            for name, one in curves.items()]
    head = ["quick start at 1 Gb/s", "accuracy", "seconds of training", "ms a step", "MB sent"]
    return {"": "![Accuracy over time, dense and sparse](docs/pictures/accuracy-over-time.svg)\n\n" + markdown(head, rows)}


def over_time_picture(curves: dict) -> dict[str, str]:
    lines = {name: [(0, 0.1), *map(tuple, one["points"])] for name, one in curves.items()}
    return {"accuracy-over-time.svg": picture.lines(
        "Fashion-MNIST, CNN, 4 hosts at 1 Gb/s", "seconds of training", "accuracy", lines,
        names={"dense": "dense allreduce", "knot": "Topknot"})}


def on(network: str, minutes_taken: float, where: str) -> Table:
    return Table(f"time-{network}", f"How long to the metric {where}?", "results.md", minutes_taken,
                 ("root", "mpi", "data"), functools.partial(times, network), times_table)


TABLES = [
    on("1gbit", 15, "on four hosts at 1 Gb/s"),
    on("100mbit", 30, "on four hosts at 100 Mb/s"),
    Table("accuracy-over-time", "The picture of the README", "../README.md", 9, ("root", "mpi"),
          over_time, over_time_text, over_time_picture),
]
