#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster is our exact top-k step than torch's, on one core?

    bench/topk_vs_torch.py build/release/topknot [--n N] [--density SHARE] [--runs RUNS]

Both do the same: add the gradient to the residual, find the k largest magnitudes, take them
out of the residual. Ours is `topknot bench select`; torch's is below, as the published code
writes it. They take turns, and a ratio is of two neighbours. Prints JSON, seconds.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch


def torch_step(residual, gradient, k):
    residual += gradient
    _, index = torch.topk(residual.abs(), k, sorted=False)
    values = residual[index]
    residual[index] = 0
    return index, values


def torch_seconds(n, density, steps=5):
    k = max(1, int(n * density))
    torch.manual_seed(1)
    laplace = torch.distributions.Laplace(0.0, 1.0)
    gradients = [laplace.sample((n,)) for _ in range(4)]
    residual = torch.zeros(n)
    times = []
    for step in range(steps + 3):
        start = time.perf_counter()
        torch_step(residual, gradients[step % 4], k)
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def our_seconds(command, n, density):
    said = json.loads(subprocess.run(
        [command, "bench", "select", "--n", str(n), "--density", str(density),
         "--compressor", "topk", "reuse", "--json"], check=True, capture_output=True, text=True).stdout)
    if not said["results"][0]["exact"]:
        raise SystemExit("topk_vs_torch: topk did not select the k largest.")
    return {"stream_add": said["stream_add_seconds"],
            **{row["compressor"]: row["seconds"] for row in said["results"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("topknot")
    parser.add_argument("--n", type=int, default=1 << 25)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    runs = [{"torch": torch_seconds(args.n, args.density), **our_seconds(args.topknot, args.n, args.density)}
            for _ in range(args.runs)]
    print(json.dumps({"n": args.n, "density": args.density, "torch_version": torch.__version__, "runs": runs}))


if __name__ == "__main__":
    main()
