#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long is a training step with each way of exchanging gradients, in one run?

    scripts/cluster up 4 1gbit
    scripts/cluster run build/python/venv/bin/python bench/ddp_step.py          # VGG-16, batch 8
    torchrun --standalone --nproc-per-node 2 bench/ddp_step.py --model tensors

Modes: none (torch's noop hook: nothing is sent), dense (plain DDP), fp16 (torch's hook), bf16 (the same,
our own lines, for DDP refuses torch's off NCCL),
powersgd (rank 4, in one bucket, for with several it fails on Gloo), attach (topknot.attach),
optimizer (topknot.DistributedOptimizer as it is: an exchange every fourth step). Every rank runs
on one thread; buffers are not broadcast. The modes take turns, `--rounds` times, so that a
machine that changes its mind in between shows. A round is `--steps` steps, a multiple of four, and
its step is the mean of them on the rank that took longest.

--model tensors is 1,000 tensors of 64 values: what a step costs where there is nothing to
send. --check first trains 20 steps at density 1 against plain DDP, and 50 at the given
density, comparing parameters over the ranks bit for bit. Rank 0 prints JSON.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot

MODES = ("none", "dense", "fp16", "bf16", "powersgd", "attach", "optimizer")
POWERSGD_RANK = 4


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


def bf16_hook(_, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What torch's bf16_compress_hook does, which DDP refuses off NCCL."""
    half = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    reduced = dist.all_reduce(half, async_op=True).get_future()
    return reduced.then(lambda done: bucket.buffer().copy_(done.value()[0]))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def wrap(mode: str, args, density: float | None = None) -> DDP:
    one_bucket = {"bucket_cap_mb": 4096} if mode == "powersgd" else {}
    model = DDP(build(args), broadcast_buffers=False, **one_bucket)
    if mode == "none":
        model.register_comm_hook(None, debugging_hooks.noop_hook)
    elif mode == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif mode == "bf16":
        model.register_comm_hook(None, bf16_hook)
    elif mode == "powersgd":
        state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=2, warm_start=True
        )
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    elif mode == "attach":
        topknot.attach(
            model, args.scheme, args.density if density is None else density,
            compressor=args.compressor, collective=args.collective,
        )  # fmt: skip
    return model


def job(mode: str, args) -> tuple[nn.Module, torch.optim.Optimizer]:
    if mode == "optimizer":
        model = build(args)
        return model, topknot.DistributedOptimizer(sgd(model), model.named_parameters())
    model = wrap(mode, args)
    return model, sgd(model)


def powersgd_values(model: nn.Module) -> int:
    """Numbers that PowerSGD sums: two factors of each matrix that shrinks by half, the rest whole."""
    values = 0
    for parameter in model.parameters():
        rows = parameter.shape[0]
        columns = parameter.numel() // rows
        factors = (rows + columns) * min(rows, columns, POWERSGD_RANK)
        shrinks = parameter.dim() > 1 and 2 * factors < parameter.numel()
        values += factors if shrinks else parameter.numel()
    return values


def sent_bytes(mode: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    """Of a rank in a step; dense sums as a ring sends them."""
    if mode in ("attach", "optimizer"):
        stats = topknot.stats(model if mode == "attach" else optimizer)
        return stats["sent_bytes"] / max(1, stats["steps"])
    ring = 2 * (dist.get_world_size() - 1) / dist.get_world_size()
    n = sum(parameter.numel() for parameter in model.parameters())
    return ring * {"none": 0, "dense": 4 * n, "fp16": 2 * n, "bf16": 2 * n,
                   "powersgd": 4 * powersgd_values(model)}[mode]


def batch(args, step: int):
    torch.manual_seed(1000 * step + dist.get_rank())
    if args.model == "vgg16":
        return torch.randn(args.batch, 3, 32, 32), torch.randint(0, 10, (args.batch,))
    return torch.randn(args.batch, 10), torch.randint(0, 10, (args.batch,))


def train(model: nn.Module, optimizer, args, steps: int) -> float:
    """The seconds of all steps together, without the making of batches."""
    seconds = 0.0
    for step in range(steps):
        x, y = batch(args, step)
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        seconds += time.perf_counter() - start
    return seconds


def of_slowest(seconds: float) -> float:
    slowest = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def check(args, whole_steps: int = 20, sparse_steps: int = 50) -> dict[str, float | bool]:
    def trained(mode: str, steps: int, density: float | None = None) -> torch.Tensor:
        model = wrap(mode, args, density)
        train(model, sgd(model), args, steps)
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    dense, whole = trained("dense", whole_steps), trained("attach", whole_steps, 1.0)
    sparse = trained("attach", sparse_steps)
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
    parser.add_argument("--steps", type=int, default=8, help="of a round, a multiple of 4")
    parser.add_argument("--warmup", type=int, default=4, help="steps before the first round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scheme", default="knot")
    parser.add_argument("--compressor")
    parser.add_argument("--collective")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.steps % 4 or args.warmup % 4:
        parser.error("--steps and --warmup are multiples of 4: the optimizer exchanges every fourth step.")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    report: dict = {"model": args.model, "batch": args.batch, "ranks": dist.get_world_size()}
    report |= {"torch": torch.__version__, "scheme": args.scheme, "density": args.density}
    if args.check:
        report["check"] = check(args)
    jobs = {}
    for mode in args.modes.split(","):
        jobs[mode] = *job(mode, args), []
        train(*jobs[mode][:2], args, args.warmup)
    for _ in range(args.rounds):
        for model, optimizer, seconds in jobs.values():
            dist.barrier()
            seconds.append(of_slowest(train(model, optimizer, args, args.steps)) / args.steps)
    report["modes"] = {
        mode: {"seconds": seconds, "sent_bytes": sent_bytes(mode, model, optimizer)}
        for mode, (model, optimizer, seconds) in jobs.items()
    }
    if dist.get_rank() == 0:
        print(json.dumps(report, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
