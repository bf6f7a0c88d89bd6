# SPDX-License-Identifier: Apache-2.0
"""The second moments of the ranks' own Adams, as the ranks agree on them.

In rounds a rank's Adam sees its own gradients alone. Of a rare feature, as the row of an
embedding, it has a P-th of them, and estimates poorly. So after a round the ranks average the
mean square of each row, and each scales its rows to these means; and every EVERY rounds they
replace all squares with the mean. Both are in bf16. The rows take at most 1/ROW_SHARE of dense's
bytes, all squares a seventh of what the rounds send (src/train/second_moments.h)."""

import torch
import torch.distributed as dist

from topknot._buckets import Bucket

EVERY = 64
ROW_SHARE = 512
# By type, so that all ranks decide alike, whatever has been in their gradients.
_KEEPERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam)
_NAME = "exp_avg_sq"


def agree_on_squares(
    optimizer: torch.optim.Optimizer,
    buckets: list[Bucket],
    group: dist.ProcessGroup,
    rounds: int,
    local_steps: int,
) -> int:
    """Averages what is due behind so many rounds. Returns the bytes that this rank has sent.
    Squares whose sum is not finite stay its own."""
    if type(optimizer) not in _KEEPERS or dist.get_world_size(group) == 1:
        return 0
    if rounds % EVERY == 0:
        return _average_all(optimizer, buckets, group)
    if rounds % rows_every(buckets, local_steps) == 0:
        return _average_rows(optimizer, buckets, group)
    return 0


def rows_every(buckets: list[Bucket], local_steps: int) -> int:
    """The rounds from one mean of the rows to the next."""
    parameters = [parameter for bucket in buckets for parameter, _ in bucket.places()]
    rows = sum(_row_count(parameter) for parameter in parameters)
    # A mean takes 2 bytes, a weight of a dense step 4.
    dense = 2 * local_steps * sum(parameter.numel() for parameter in parameters)
    return max(1, -(-ROW_SHARE * rows // max(1, dense)))


def _row_count(parameter: torch.Tensor) -> int:
    if parameter.numel() == 0:
        return 0
    return parameter.shape[0] if parameter.dim() > 1 else 1


def _row_means(squares: torch.Tensor) -> torch.Tensor:
    if squares.dim() < 2:
        return squares.double().mean().float().reshape(1)
    return squares.double().flatten(1).mean(1).float()


def _scale_rows(squares: torch.Tensor, mean: torch.Tensor, ratio: torch.Tensor) -> None:
    """A row of which this rank has seen nothing is filled with the mean."""
    shape = [len(mean), *[1] * (squares.dim() - 1)] if squares.dim() > 0 else []
    mean, ratio = mean.view(shape), ratio.view(shape)
    scaled = torch.where(torch.isfinite(ratio), squares * ratio, mean)
    squares.copy_(torch.where(mean > 0, scaled, squares))


def _average_rows(
    optimizer: torch.optim.Optimizer, buckets: list[Bucket], group: dist.ProcessGroup
) -> int:
    ranks = dist.get_world_size(group)
    parameters = [p for bucket in buckets for p, _ in bucket.places() if p.numel() > 0]
    squares = [optimizer.state.get(parameter, {}).get(_NAME) for parameter in parameters]
    own = torch.cat([
        parameter.new_zeros(_row_count(parameter)) if one is None else _row_means(one)
        for parameter, one in zip(parameters, squares)
    ])
    flat = own.to(torch.bfloat16)
    dist.all_reduce(flat, group=group)
    means = flat.float() / ranks
    if bool(torch.isfinite(means).all()):
        # Rounding cannot take a mean below this rank's share: squares that became zero would
        # make the next step boundless.
        ratios = (means / own).clamp(min=1 / ranks)
        counts = [_row_count(parameter) for parameter in parameters]
        for one, mean, ratio in zip(squares, means.split(counts), ratios.split(counts)):
            if one is not None:
                _scale_rows(one, mean, ratio)
    return 2 * flat.numel() * flat.element_size() * (ranks - 1) // ranks


def _average_all(
    optimizer: torch.optim.Optimizer, buckets: list[Bucket], group: dist.ProcessGroup
) -> int:
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
