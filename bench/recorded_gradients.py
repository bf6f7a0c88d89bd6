#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How does every compressor do on real gradients of every domain?

    bench/recorded_gradients.py --data DIR --out FOLDER

Trains each job for a few steps with knot at the density, records what rank 0 gives to the
exchange on some of them, and puts the file through `topknot bench select`. Prints one table for
each domain: achieved density, smallest magnitude that was selected, and time. A recording that
is in FOLDER is not made again: another density wants another FOLDER. DIR has the real sets, as `topknot data` prepares them.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# By short name: the job, the steps that are recorded, and the keys that shorten the run.
JOBS = {
    "vgg16": ("vgg16-cifar10", "5,10,15,19", ["batch=8", "steps=20"]),
    "resnet20": ("resnet20-cifar10", "20,30,40,49", ["warmup=0.1", "steps=50"]),
    "lstm": ("lstm-wikitext2-small", "20,30,40,49", ["steps=50"]),
    "an4": ("lstm-an4-small", "20,30,40,49", ["steps=50"]),
    "bert": ("bert-wikipedia-small", "20,30,40,49", ["steps=50"]),
    "ncf": ("ncf-movielens-small", "50,100,150,199", ["steps=200"]),
}


def record(args, name: str) -> pathlib.Path:
    file = args.out / f"{name}.safetensors"
    if file.exists():
        return file
    job, steps, changes = JOBS[name]
    print(f"{name} ...", file=sys.stderr, flush=True)
    command = [args.topknot, "train", job, "--scheme", "knot", "--density", args.density]
    command += ["--data", args.data, "--workers", "4", "--record-gradients", file]
    command += ["--record-ranks", "0", "--record-steps", steps]
    command += ["--set", "density_schedule=constant", *changes]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return file


def table(args, name: str, file: pathlib.Path) -> str:
    command = [args.topknot, "bench", "select", "--gradients", file, "--json"]
    command += ["--density", args.density, "--steps", "40"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    text = f"\n**{JOBS[name][0]}**, {said['n']:,} coordinates,"
    text += f" stream add {said['stream_add_seconds'] * 1e3:.3f} ms\n\n"
    text += "| compressor | density | threshold | ms | x stream add |\n|---|---|---|---|---|\n"
    for one in said["results"]:
        threshold = "-" if one["threshold"] is None else f"{one['threshold']:.3g}"
        text += (
            f"| `{one['compressor']}` | {one['density_got']:.5f} | {threshold}"
            f" | {one['seconds'] * 1e3:.3f} | {one['ratio_to_stream_add']:.2f} |\n"
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
    parser.add_argument("--density", default="0.01")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.jobs:
        print(table(args, name, record(args, name)), flush=True)


if __name__ == "__main__":
    main()
