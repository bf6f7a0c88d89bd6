# SPDX-License-Identifier: Apache-2.0
"""The small JSON that bench/convergence.py keeps of a finished run: made from the run's folder,
written, read again."""

import json
import math
import os
import pathlib
import statistics
import sys

from convergence_runs import JOBS, VARIANTS, Run

POINTS = 100  # of a curve, at most
LOWER_IS_BETTER = {"perplexity", "word error rate"}


def read_lines(path: pathlib.Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def rounded(x: float | None, digits: int = 6) -> float | None:
    if x is None or not math.isfinite(x):
        return None
    return float(f"{x:.{digits}g}")


def mean_loss(steps: list[dict]) -> float | None:
    losses = [step["loss"] for step in steps if step["loss"] is not None]
    return rounded(statistics.fmean(losses)) if losses else None


def curve_of(steps: list[dict]) -> list[list]:
    """[steps taken, mean loss since the last point, bytes sent so far]"""
    width = max(1, math.ceil(len(steps) / POINTS))
    curve, sent = [], 0
    for first in range(0, len(steps), width):
        part = steps[first : first + width]
        sent += sum(step["sent_bytes"] for step in part)
        curve.append([part[-1]["step"] + 1, mean_loss(part), sent])
    return curve


def evaluations_of(epochs: list[dict], steps: list[dict]) -> list[list]:
    """[steps taken, metric, loss on the test set, bytes sent so far]"""
    sent = [0]
    for step in steps:
        sent.append(sent[-1] + step["sent_bytes"])
    return [
        [one["step"], rounded(one["metric"]["value"]), rounded(one["test_loss"]),
         sent[min(one["step"], len(steps))]]
        for one in epochs if one.get("metric")
    ]


def settle_bytes(result: dict, about: dict, steps: list[dict]) -> int:
    """The result's mean is over the steps since the last resume, and holds what settling sent,
    which is no step's."""
    if "settle_bytes" in result:
        return round(result["settle_bytes"])
    resumed = about.get("resumed") or [{"step": 0}]
    last = [step["sent_bytes"] for step in steps if step["step"] >= resumed[-1]["step"]]
    return max(0, round(result["sent_bytes_per_step"] * len(last)) - sum(last))


def machine_line(about: dict) -> str:
    machine, versions = about.get("machine", {}), about.get("versions", {})
    gib = machine.get("memory_bytes", 0) / 2**30
    line = f"{machine.get('cores')} cores of {machine.get('processor')}, {gib:.0f} GiB"
    line += f", {machine.get('system', '').split(' ')[0]} {machine.get('architecture')}"
    line += f", gcc {versions.get('compiler')}"
    return line + (f", torch {versions['torch']}" if "torch" in versions else "")


def record_of(run: Run, folder: pathlib.Path) -> dict:
    """Of a folder in which a run has ended; a run that did not stay finite has no result."""
    about = json.loads((folder / "run.json").read_text())
    result_path = folder / "result.json"
    result = json.loads(result_path.read_text()) if result_path.exists() else {}
    steps = read_lines(folder / "steps.jsonl")
    metric = result.get("metric") or {}
    settle = settle_bytes(result, about, steps) if result else 0
    total = sum(step["sent_bytes"] for step in steps) + settle
    return {
        "job": run.job,
        "variant": run.variant,
        "lr": run.lr,
        "seed": run.seed,
        "command": f"topknot train {JOBS[run.job].name} --data DIR --set "
                   + " ".join(run.settings()),
        "settings": run.settings(),
        "version": about.get("versions", {}).get("topknot"),
        "commit": about.get("versions", {}).get("commit"),
        "machine": machine_line(about),
        "steps": len(steps),
        "seconds": rounded(sum(step["seconds"] for step in steps), 4),  # before a resume too
        "metric": {"name": metric.get("name"), "value": rounded(metric.get("value"))},
        "final_loss": mean_loss(steps[-max(1, len(steps) // 10) :]),
        "bytes": total,
        "settle_bytes": settle,
        "bytes_per_step": rounded(total / max(1, len(steps))),
        "dense_bytes_per_step": about.get("dense_bytes_per_step"),
        "skipped_steps": result.get("skipped_steps"),
        "weights_hash": result.get("weights_hash"),
        "evaluations": evaluations_of(read_lines(folder / "epochs.jsonl"), steps),
        "curve": curve_of(steps),
    }


class Records:
    """The JSONs of a folder, JOB/VARIANT-lrX-seedS.json."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def path(self, run: Run) -> pathlib.Path:
        return self.folder / f"{run.name}.json"

    def find(self, run: Run) -> dict | None:
        """None when there is none, or one with other settings."""
        path = self.path(run)
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_text())
        except ValueError as error:
            raise SystemExit(f"convergence: {path} is not JSON ({error}): mend or remove it.")
        return record if record.get("settings") == run.settings() else None

    def write(self, run: Run, record: dict) -> None:
        path = self.path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'  "{key}": {json.dumps(value)}' for key, value in record.items()]
        part = path.with_suffix(".part")
        part.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        os.replace(part, path)

    def of_job(self, job: str) -> list[dict]:
        """Those whose settings are today's, by variant, rate and seed; the others are named."""
        found = []
        for path in sorted((self.folder / job).glob("*.json")):
            one = json.loads(path.read_text())
            run = Run(job, one.get("variant"), one.get("lr"), one.get("seed"))
            if run.variant in VARIANTS and one.get("settings") == run.settings():
                found.append(one)
            else:
                print(f"convergence: {path} is left out: its settings are not today's.",
                      file=sys.stderr)
        order = list(VARIANTS)
        return sorted(found, key=lambda one: (order.index(one["variant"]), one["lr"], one["seed"]))

    def best_rate(self, job: str, variant: str, failed: frozenset = frozenset()) -> float | None:
        """By seed 1, once every rate has run; rates whose run failed do not count."""
        runs = [Run(job, variant, lr, 1) for lr in JOBS[job].rates]
        found = [self.find(run) for run in runs if run.name not in failed]
        if not found or None in found:
            return None
        best = min(found, key=badness)
        return None if badness(best) == math.inf else best["lr"]


def lower_is_better(name: str | None) -> bool:
    return name in LOWER_IS_BETTER


def badness(record: dict) -> float:
    """Smaller is better. A run that did not stay finite is the worst."""
    value = record["metric"]["value"]
    if value is None:
        return math.inf
    return value if lower_is_better(record["metric"]["name"]) else -value
