#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster is our exact top-k step than torch's, in one run on one core?

usage: bench/topk_vs_torch.py [COMMAND] [N] [DENSITY]

Both do the same: add the gradient to the residual, find the k largest magnitudes, take them
out of the residual. Ours is `COMMAND bench select`; torch's is below, as the published code
writes it. The torch step is timed before and after ours, so that a machine that changes its
mind in between shows.
"""

import json
import statistics
import subprocess
import sys
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


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "build/release/topknot"
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 25
    density = float(sys.argv[3]) if len(sys.argv) > 3 else 0.01
    torch.set_num_threads(1)
    before = torch_seconds(n, density)
    ours = json.loads(subprocess.run(
        [command, "bench", "select", "--n", str(n), "--density", str(density),
         "--compressor", "topk", "--json"], check=True, capture_output=True, text=True).stdout)
    after = torch_seconds(n, density)
    mine = ours["results"][0]["seconds"]
    theirs = min(before, after)
    print(f"n {n}, density {density}, one thread, torch {torch.__version__}")
    print(f"torch.topk step   {before * 1e3:9.2f} ms before, {after * 1e3:.2f} ms after")
    print(f"topknot topk step {mine * 1e3:9.2f} ms, exact: {ours['results'][0]['exact']}")
    print(f"stream add        {ours['stream_add_seconds'] * 1e3:9.2f} ms")
    print(f"faster by         {theirs / mine:9.1f} x")


if __name__ == "__main__":
    main()
