# SPDX-License-Identifier: Apache-2.0
"""A classifier of 20 clusters in 64 dimensions, trained by DistributedOptimizer."""

import torch
from cases import rank
from torch import nn

import topknot


def last_loss(optimizer, steps: int, rate_ends_at: float = 1.0, **options) -> float:
    """On samples of its own, after so many steps. The rate falls in a line to this share."""
    torch.manual_seed(11)
    centres = 0.35 * torch.randn(20, 64)

    def samples(count: int):
        y = torch.randint(0, 20, (count,))
        return centres[y] + 0.6 * torch.randn(count, 64), y

    torch.manual_seed(3)
    wide = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    model = nn.Sequential(*wide, nn.Linear(128, 20))
    wrapped = topknot.DistributedOptimizer(
        optimizer(model.parameters()), model.named_parameters(), **options
    )
    rate = torch.optim.lr_scheduler.LinearLR(wrapped, 1.0, rate_ends_at, steps)
    for step in range(steps):
        torch.manual_seed(1000 * step + rank())
        x, y = samples(16)
        wrapped.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        wrapped.step()
        rate.step()
    torch.manual_seed(5)
    x, y = samples(2000)
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()
