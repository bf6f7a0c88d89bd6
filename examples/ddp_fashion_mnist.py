# SPDX-License-Identifier: Apache-2.0
"""A complete DDP script; topknot is the one line marked below.

    torchrun --standalone --nproc-per-node 4 examples/ddp_fashion_mnist.py

Takes Fashion-MNIST from Debian's dataset-fashion-mnist, or made-up pictures without it.
"""

import gzip
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import topknot


def pictures(part: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    folder = pathlib.Path("/usr/share/datasets/fashion-mnist")
    if not folder.is_dir():
        labels = torch.randint(0, 10, (count,), generator=torch.Generator().manual_seed(count))
        return torch.eye(784)[labels * 70].reshape(-1, 1, 28, 28), labels
    read = lambda name: bytearray(gzip.open(folder / f"{part}-{name}-ubyte.gz").read())
    images = torch.frombuffer(read("images-idx3"), dtype=torch.uint8, offset=16)
    labels = torch.frombuffer(read("labels-idx1"), dtype=torch.uint8, offset=8)
    return images.reshape(-1, 1, 28, 28)[:count] / 255, labels[:count].long()


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 256), nn.ReLU(), nn.Linear(256, 10),
)  # fmt: skip
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
topknot.attach(model, density=0.01, optimizer=optimizer)  # <-- this
x, y = (part[rank::ranks] for part in pictures("train", 20000))
for epoch in range(2):
    for i in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        loss.backward()
        optimizer.step()

x, y = pictures("t10k", 2000)
if rank == 0:
    with torch.no_grad():
        accuracy = (model.module(x).argmax(1) == y).float().mean()
    stats = topknot.stats(model)
    print(f"accuracy {accuracy:.1%}; sent {stats['sent_bytes'] / stats['dense_bytes']:.1%} "
          f"of what a dense allreduce sends")  # fmt: skip
dist.destroy_process_group()
