# SPDX-License-Identifier: Apache-2.0
"""One rank's own step of a torch optimizer: what an exchange of updates on every step and one
of rounds have in common."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core

_SECOND_MOMENTS = ("exp_avg_sq", "square_avg")

Gain = float | str


class OwnStep:
    """What is to be put back after one step of the optimizer. Gradients that are not finite are
    hidden from it, and so is decoupled weight decay where `takes_decay`."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, finite: bool, takes_decay: bool = True
    ) -> None:
        self.finite = finite
        self._decays: list[tuple[dict[str, Any], Any]] = []  # groups, and what they decay by
        self._hidden: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        if not finite:  # an optimizer passes over a parameter without gradient
            for parameter in parameters_of(optimizer):
                if parameter.grad is not None:
                    self._hidden.append((parameter, parameter.grad))
                    parameter.grad = None
        if takes_decay:
            self._decays = [(g, g["weight_decay"]) for g in _decaying_groups(optimizer)]
            for group, _ in self._decays:
                group["weight_decay"] = 0.0

    def decay(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        held = set(parameters)
        for group, decay in self._decays:
            for parameter in group["params"]:
                if parameter in held:
                    parameter.mul_(1 - group["lr"] * decay)

    def give_back(self) -> None:
        for group, decay in self._decays:
            group["weight_decay"] = decay
        for parameter, gradient in self._hidden:
            parameter.grad = gradient


def _decaying_groups(optimizer: torch.optim.Optimizer) -> Iterator[dict[str, Any]]:
    """Those whose weight decay does not pass through the gradient."""
    names = ("AdamW", "Adafactor", "Muon")  # of which not every torch has all
    kinds = tuple(getattr(torch.optim, name) for name in names if hasattr(torch.optim, name))
    for group in optimizer.param_groups:
        decoupled = isinstance(optimizer, kinds) or group.get("decoupled_weight_decay", False)
        if decoupled and group.get("weight_decay", 0) != 0:
            yield group


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for p in parameters_of(optimizer) if p.grad is not None]


def gradients_are_finite(optimizer: torch.optim.Optimizer) -> bool:
    gradients = _gradients(optimizer)
    # The Euclidean norm is fast. It may overflow, where the largest magnitude does not.
    norms = (torch.nn.utils.get_total_norm(gradients, norm_type=kind) for kind in (2.0, math.inf))
    return any(bool(norm.isfinite()) for norm in norms)


def clip_gradients(optimizer: torch.optim.Optimizer, clip: float, ranks: int) -> None:
    """Each rank's own: it is longer than the mean by the noise that the mean has lost."""
    if clip > 0:
        torch.nn.utils.clip_grad_norm_(parameters_of(optimizer), clip * math.sqrt(ranks))


def spoil_unless_finite(optimizer: torch.optim.Optimizer, group: dist.ProcessGroup) -> None:
    """Makes all gradients NaN on all ranks where one is not finite on any."""
    worst = torch.tensor([0.0 if gradients_are_finite(optimizer) else 1.0])
    dist.all_reduce(worst, dist.ReduceOp.MAX, group)
    if worst.item() > 0:
        for gradient in _gradients(optimizer):
            gradient.fill_(math.nan)


def gain_of(gain: Gain, state: dict[str, Any], ranks: int) -> float:
    """The factor of a parameter's change, by what the optimizer keeps for it."""
    if not isinstance(gain, str):
        return float(gain)
    has_squares = any(name in state for name in _SECOND_MOMENTS)
    return math.sqrt(ranks) if has_squares else 1.0


def refuse_unknown(optimizer: torch.optim.Optimizer, known: set[torch.nn.Parameter]) -> None:
    if any(p.requires_grad and p not in known for p in parameters_of(optimizer)):
        raise _core.ConfigError(
            "The optimizer has a parameter that DistributedOptimizer() was not given by "
            "name, so its changes would not be exchanged: hand in all of its named_parameters."
        )


def rank_with_other_weights(
    group: dist.ProcessGroup, weights: Iterable[torch.Tensor]
) -> int | None:
    """The first that has not the bits of rank 0. All ranks call it."""
    mine = torch.tensor([_checksum(one) for one in weights])
    theirs = [torch.empty_like(mine) for _ in range(group.size())]
    dist.all_gather(theirs, mine, group)
    for rank, other in enumerate(theirs):
        if not torch.equal(other, theirs[0]):
            return rank
    return None


def _checksum(parameter: torch.Tensor) -> int:
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = parameter.detach().contiguous().view(whole[parameter.element_size()])
    return int(bits.sum(dtype=torch.int64))
