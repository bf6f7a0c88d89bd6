# SPDX-License-Identifier: Apache-2.0
"""Which scheme to take for a model on a network, or that dense is best."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core

_ROUNDS = "knot-rounds"


@dataclasses.dataclass(frozen=True)
class Advice:
    """choice is the scheme to name, with its density; "knot-rounds" is what DistributedOptimizer()
    does with nothing set. Sparse exchange pays up to break_even_gbps; 0: at no bandwidth. table has a
    row for each scheme, the fastest first, with the fields of `topknot advise --json`."""

    choice: str
    density: float
    break_even_gbps: float
    reason: str
    table: list[dict[str, Any]]


def advise(
    model: torch.nn.Module | int | float,
    *,
    workers: int | None = None,
    gbps: float = 1.0,
    latency: float = 50e-6,
    compute: float = 0.0,
    density: float = 0.01,
    schemes: Iterable[str] | None = None,
    simulated: bool = False,
) -> Advice:
    """Which scheme to take for `model`, or a number of parameters, by predicted times of a step.

        print(topknot.advise(model, workers=8, gbps=1))

    workers    ranks; by default those of torch.distributed, or 4
    gbps       line rate of a rank's port, in Gb/s
    latency    of a message, in seconds
    compute    seconds of forward and backward, behind which buckets are exchanged
    density    of the schemes that have one
    schemes    names of topknot.schemes(), and "knot-rounds"; all by default
    simulated  runs the algorithms on a virtual clock, in seconds to minutes; without, each is
               asked for its cost in closed form

    Nothing is sent, and any rank may ask alone. attach(scheme="auto") measures instead.
    """
    if workers is None:
        workers = dist.get_world_size() if dist.is_initialized() else 4
    for name, value, least in (("workers", workers, 1), ("gbps", gbps, 1e-6),
                               ("latency", latency, 0), ("compute", compute, 0)):  # fmt: skip
        if not least <= value < 1e9:
            raise _core.ConfigError(f"{name}={value} cannot be: it is a number from {least} on.")
    if not 0 < density <= 1:
        raise _core.ConfigError(f"density={density} is not in (0, 1].")
    names = [entry["name"] for entry in _core.catalog()] + [_ROUNDS]
    if isinstance(schemes, str):
        schemes = [schemes]
    asked = names if schemes is None else list(schemes)
    return Advice(
        **_core.advise(_parameters(model), compute, workers, gbps, latency, density, asked, simulated)
    )


def _parameters(model: torch.nn.Module | int | float) -> float:
    if isinstance(model, torch.nn.Module):
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    else:
        count = model
    if isinstance(count, bool) or not isinstance(count, int | float) or not 1 <= count < 2**50:
        raise _core.ConfigError(
            f"topknot.advise() takes a model with parameters to train, or their number, not "
            f"{type(model).__name__} {model if not isinstance(model, torch.nn.Module) else ''}".strip()
            + "."
        )
    return float(count)
