# SPDX-License-Identifier: Apache-2.0
"""Local steps as published: DiLoCo (arXiv 2311.08105) and SparseLoCo (arXiv 2508.15706)."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from topknot import _core
from topknot._delayed import DelayedRounds
from topknot._names import without_wrapper
from topknot._options import make_options
from topknot._outer import Outer
from topknot._rounds import Rounds
from topknot._session import remember
from topknot.optimizer import (
    AnyOptimizer,
    exchange_behind_steps,
    of_optimizer,
    open_for,
    trained,
)

# By name: options of the exchange, and of the outer optimizer.
_PUBLISHED: dict[str, tuple[dict[str, Any], tuple[float, float]]] = {
    "diloco": ({"scheme": "dense", "density": 1.0}, (0.7, 0.9)),
    "sparseloco": (
        {
            "scheme": "topka",
            "compressor": "chunked",
            "collective": "topka:values=i2",
            "memory": "residual:decay=0.95",
            "density": 1 / 64,
        },
        (1.0, 0.0),
    ),
}
_NOT_HERE = {
    "budget": "every says how often the ranks exchange; budget is for DistributedOptimizer()",
    "local_steps": "say every= instead",
    "exchange": "the ranks exchange how far their steps have led",
    "clip": "each rank's gradient is its own: clip it in the script, before optimizer.step()",
}


def LocalSteps(  # noqa: N802, as DistributedOptimizer
    optimizer: AnyOptimizer,
    model: torch.nn.Module,
    every: int = 30,
    scheme: str = "sparseloco",
    density: float | None = None,
    *,
    outer_lr: float | None = None,
    outer_momentum: float | None = None,
    delay: int = 0,
    process_group: dist.ProcessGroup | None = None,
    bucket_mb: float = 25.0,
    broadcast: bool = True,
    **options: Any,
) -> AnyOptimizer:
    """Every rank takes `every` steps alone, and then the ranks exchange how far they came.

        optimizer = topknot.LocalSteps(torch.optim.AdamW(model.parameters()), model, every=30)
        ...                                       # train as before, without DDP
        topknot.end_round(optimizer)              # before evaluation, checkpoints and the end

    Returns the same optimizer: any of torch's, or your own. It steps on this rank's gradients
    at its own rate. At the end of a round the weights go back to where the round began, the
    ranks agree on the mean of their changes, and an outer optimizer moves the weights by it:
    the same bits on all ranks. IN BETWEEN THE RANKS HAVE DIFFERENT WEIGHTS.

    scheme       "diloco": the whole change, in f32; outer SGD at 0.7 with Nesterov's momentum
                 of 0.9. "sparseloco": the largest 64 of every 4096 changes, in 2 bits each,
                 with a residual that decays by 0.95; the weights move by the mean. Or a
                 name of topknot.schemes(): a quarter in 2 bits unless `density` is set, and
                 the weights move by the mean.
    density      share of the coordinates in an exchange
    outer_lr, outer_momentum
                 of the outer optimizer, instead of the scheme's
    delay        1: the exchange of a round goes on while the next round is computed, and its
                 mean is applied at the end of that. A rank goes on from the agreed weights and
                 its own change. Nothing is lost; 8 bytes a coordinate more.

    end_round, state_dict, load_state_dict, gather_state_dict, stats and synchronize of topknot
    take the optimizer. The other options are those of topknot.attach().
    """
    for name in options:
        if name in _NOT_HERE:
            raise _core.ConfigError(f"LocalSteps() has no {name}: {_NOT_HERE[name]}.")
    if isinstance(model, DistributedDataParallel):
        raise _core.ConfigError(
            "LocalSteps() takes the model without DistributedDataParallel, which would "
            "exchange gradients on every step: hand in the module itself."
        )
    preset, outer_preset = _PUBLISHED.get(scheme, ({"scheme": scheme}, (1.0, 0.0)))
    given = {key: value for key, value in options.items() if value is not None}
    if density is not None:
        given["density"] = density
    made = make_options(
        "LocalSteps", **{**preset, **given}, local_steps=every, exchange="updates"
    )
    lr = outer_preset[0] if outer_lr is None else outer_lr
    momentum = outer_preset[1] if outer_momentum is None else outer_momentum
    parameters = trained(without_wrapper(model).named_parameters())
    also = {
        "outer_lr": str(lr),
        "outer_momentum": str(momentum),
        "delay": str(delay),
        "bucket_mb": str(bucket_mb),
    }
    session = open_for(optimizer, parameters, made, also, process_group, broadcast)
    if delay not in (0, 1):
        raise _core.ConfigError(f"delay={delay} cannot be: it is 0, or 1 round.")
    kind = DelayedRounds if delay else Rounds
    session.rounds = kind(
        session, of_optimizer(optimizer, parameters), int(bucket_mb * 2**20),
        clip=0.0, gain=1.0, outer=Outer(lr, momentum),
    )  # fmt: skip
    exchange_behind_steps(optimizer, session.rounds)
    remember(optimizer, session)
    return optimizer
