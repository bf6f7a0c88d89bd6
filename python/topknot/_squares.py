# SPDX-License-Identifier: Apache-2.0
"""The second moments of the ranks' own Adams, averaged now and then.

In rounds a rank's Adam sees its own gradients alone. Of a rare feature, as the row of an
embedding, it has a P-th of them, and estimates poorly. So every EVERY rounds the ranks replace
their squares with the mean over all ranks, in bf16: a seventh of what the rounds send."""

import torch
import torch.distributed as dist

from topknot._buckets import Bucket

EVERY = 64
# By type, so that all ranks decide alike, whatever has been in their gradients.
_KEEPERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam)
_NAME = "exp_avg_sq"


def average_squares(
    optimizer: torch.optim.Optimizer, buckets: list[Bucket], group: dist.ProcessGroup
) -> int:
    """Returns the bytes that this rank has sent. Squares whose sum is not finite stay its own."""
    if type(optimizer) not in _KEEPERS:
        return 0
    ranks = dist.get_world_size(group)
    sent = 0
    for bucket in buckets:
        places = [
            (optimizer.state.get(parameter, {}).get(_NAME), place)
            for parameter, place in bucket.places()
        ]
        flat = torch.cat([
            (torch.zeros_like(place) if own is None else own).to(torch.bfloat16).reshape(-1)
            for own, place in places
        ])
        dist.all_reduce(flat, group=group)
        sent += 2 * flat.numel() * flat.element_size() * (ranks - 1) // ranks
        mean = flat.float() / ranks
        if not bool(torch.isfinite(mean).all()):
            continue
        for (own, place), part in zip(places, mean.split([p.numel() for _, p in places])):
            if own is not None:
                own.copy_(part.view_as(own))
    return sent
