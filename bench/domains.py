#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does each scheme cost in accuracy, bytes and time in each domain?

    bench/domains.py --data DIR --out RUNS              # all of JOBS x SCHEMES, then the tables
    bench/domains.py --data DIR --out RUNS --jobs ncf --schemes dense knot

Trains every job below with every scheme at one density from the first step on (a scheme's own
warm-up would be most of such a short run), four workers as threads, the same samples in the
same order for all. A run that has ended in RUNS is not made again, so the program can be stopped
and started again; another density needs another folder. Time is the median over the steps: it
means something only where nothing else ran. DIR has the real sets, as `topknot data` prepares them.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# By short name: the job, and what is set to make it end in minutes on two cores.
JOBS = {
    "resnet20": ("resnet20-cifar10", ["epochs=1", "warmup=0.1", "lr_schedule=cosine"]),
    "lstm": ("lstm-wikitext2-small", ["steps=200"]),
    "an4": ("lstm-an4-small", []),
    "bert": ("bert-wikipedia-small", ["steps=150"]),
    "ncf": ("ncf-movielens-small", ["epochs=1"]),
}
SCHEMES = ["dense", "topka", "oktopk", "adtopk", "exdyna", "gtopk", "knot"]


def train(args, job: str, scheme: str) -> None:
    folder = args.out / f"{job}-{scheme}"
    if (folder / "result.json").exists():
        return
    name, changes = JOBS[job]
    command = [args.topknot, "train", name, "--scheme", scheme, "--density", args.density]
    command += ["--data", args.data, "--workers", "4", "--out", folder, "--overwrite"]
    command += ["--set", "density_schedule=constant", *changes, *args.set]
    print(f"{job} {scheme} ...", file=sys.stderr, flush=True)
    with open(args.out / f"{job}-{scheme}.log", "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)


def lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def number(x) -> float:
    return float("nan") if x is None else x


def row(folder: pathlib.Path) -> dict:
    result = json.loads((folder / "result.json").read_text())
    steps = lines(folder / "steps.jsonl")
    last = steps[-max(1, len(steps) // 10) :]
    return {
        "steps": result["steps"],
        "name": result["metric"]["name"],
        "metric": number(result["metric"]["value"]),
        "loss": statistics.fmean(number(step["loss"]) for step in last),
        "bytes": result["sent_bytes_per_step"],
        "dense": result["dense_bytes_per_step"],
        "ms": 1e3 * statistics.median(step["seconds"] for step in steps),
        "waited": 1e3 * statistics.median(step["exposed_seconds"] for step in steps),
    }


def table(args, job: str) -> str:
    rows = {}
    for scheme in args.schemes:
        folder = args.out / f"{job}-{scheme}"
        if (folder / "result.json").exists():
            rows[scheme] = row(folder)
    if not rows:
        return ""
    any_of_them = next(iter(rows.values()))
    text = f"\n**{JOBS[job][0]}**, {any_of_them['steps']} steps\n\n"
    text += f"| scheme | {any_of_them['name']} | training loss, last tenth | kB a step | of dense's"
    text += " | ms a step | waited |\n|---|---|---|---|---|---|---|\n"
    for scheme, one in rows.items():
        text += (
            f"| {scheme} | {one['metric']:.4f} | {one['loss']:.4f} | {one['bytes'] / 1e3:,.1f}"
            f" | 1/{one['dense'] / one['bytes']:.1f} | {one['ms']:.0f} | {one['waited']:.0f} |\n"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--topknot", default=ROOT / "build" / "release" / "topknot")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--schemes", nargs="+", default=SCHEMES)
    parser.add_argument("--density", default="0.01")
    parser.add_argument("--set", nargs="+", default=[], help="further keys, for all jobs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for job in args.jobs:
        for scheme in args.schemes:
            train(args, job, scheme)
        print(table(args, job), flush=True)


if __name__ == "__main__":
    main()
