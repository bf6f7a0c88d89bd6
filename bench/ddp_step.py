#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long is a training step with each way of exchanging gradients, in one run?

    scripts/cluster up 4 1gbit
    scripts/cluster run build/python/venv/bin/python bench/ddp_step.py          # VGG-16, batch 8
    torchrun --standalone --nproc-per-node 2 bench/ddp_step.py --model tensors

Modes: none (torch's noop hook: nothing is sent), dense (plain DDP), fp16 (torch's hook),
powersgd (rank 4, in one bucket, for with several it fails on Gloo), topknot. Every rank runs
on one thread; buffers are not broadcast. The modes take turns, `--rounds` times, so that a
machine that changes its mind in between shows; a step counts as long as the slowest rank's.

--model tensors is 1,000 tensors of 64 values: what a step costs where there is nothing to
send. --check first trains 20 steps at density 1 against plain DDP, and 50 at the given
density, comparing parameters over the ranks bit for bit. Rank 0 prints JSON.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot

MODES = ("none", "dense", "fp16", "powersgd", "topknot")


def vgg16() -> nn.Module:
    """For pictures of 32 x 32, with batch norms: 14.7 million parameters."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Tensors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ParameterList(torch.full((8, 8), 0.01) for _ in range(1000))

    def forward(self, x):
        return x + torch.stack(list(self.all)).sum(0)[0, 0]


def build(args) -> nn.Module:
    torch.manual_seed(1)
    return vgg16() if args.model == "vgg16" else Tensors()


def wrap(mode: str, args, density: float | None = None) -> DDP:
    one_bucket = {"bucket_cap_mb": 4096} if mode == "powersgd" else {}
    model = DDP(build(args), broadcast_buffers=False, **one_bucket)
    if mode == "none":
        model.register_comm_hook(None, debugging_hooks.noop_hook)
    elif mode == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif mode == "powersgd":
        state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=4, start_powerSGD_iter=2, warm_start=True
        )
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    elif mode == "topknot":
        topknot.attach(
            model, args.scheme, args.density if density is None else density,
            compressor=args.compressor, collective=args.collective,
        )  # fmt: skip
    return model


def batch(args, step: int):
    torch.manual_seed(1000 * step + dist.get_rank())
    if args.model == "vgg16":
        return torch.randn(args.batch, 3, 32, 32), torch.randint(0, 10, (args.batch,))
    return torch.randn(args.batch, 10), torch.randint(0, 10, (args.batch,))


def train(model: DDP, optimizer, args, steps: int) -> list[float]:
    seconds = []
    for step in range(steps):
        x, y = batch(args, step)
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def of_slowest(seconds: list[float]) -> list[float]:
    slowest = torch.tensor(seconds)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def check(args, whole_steps: int = 20, sparse_steps: int = 50) -> dict[str, float | bool]:
    def trained(mode: str, steps: int, density: float | None = None) -> torch.Tensor:
        model = wrap(mode, args, density)
        train(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), args, steps)
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    dense, whole = trained("dense", whole_steps), trained("topknot", whole_steps, 1.0)
    sparse = trained("topknot", sparse_steps)
    others = [torch.empty_like(sparse) for _ in range(dist.get_world_size())]
    dist.all_gather(others, sparse)
    return {
        "density_1_relative_difference": ((whole - dense).norm() / dense.norm()).item(),
        "same_bits_on_all_ranks": all(torch.equal(sparse, other) for other in others),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=("vgg16", "tensors"), default="vgg16")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8, help="measured in each round")
    parser.add_argument("--warmup", type=int, default=4, help="steps before the first round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scheme", default="knot")
    parser.add_argument("--compressor")
    parser.add_argument("--collective")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    report: dict = {"model": args.model, "batch": args.batch, "ranks": dist.get_world_size()}
    report |= {"torch": torch.__version__, "scheme": args.scheme, "density": args.density}
    if args.check:
        report["check"] = check(args)
    jobs = {}
    for mode in args.modes.split(","):
        model = wrap(mode, args)
        jobs[mode] = model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), []
        train(model, jobs[mode][1], args, args.warmup)
    for _ in range(args.rounds):
        for model, optimizer, seconds in jobs.values():
            dist.barrier()
            seconds += of_slowest(train(model, optimizer, args, args.steps))
    for mode, (model, _, seconds) in jobs.items():
        report[mode] = {"median": statistics.median(seconds), "min": min(seconds)}
        if mode == "topknot":
            stats = topknot.stats(model)
            del stats["buckets"]
            report[mode] |= stats
    if "none" in jobs:
        for mode in jobs:
            report[mode]["to_none"] = report[mode]["median"] / report["none"]["median"]
    if dist.get_rank() == 0:
        print(json.dumps(report, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
