# SPDX-License-Identifier: Apache-2.0
"""The communication hook for DistributedDataParallel."""

import dataclasses
import warnings
import weakref
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from topknot import _core
from topknot._agreement import shapes
from topknot._auto import decided, is_auto
from topknot._names import without_wrapper
from topknot._options import Options, make_options
from topknot._session import (
    hand_over_rate,
    has_session,
    open_session,
    refuse_rate_inside,
    remember,
)
from topknot._two_levels import NodeGroup, text_of


def attach(
    model: DistributedDataParallel,
    scheme: str | None = None,
    density: float | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    node_group: NodeGroup | None = None,
    **options: Any,
) -> None:
    """Makes `model` exchange about `density` of its gradients' coordinates a step.

        model = DistributedDataParallel(model)
        topknot.attach(model, density=0.01, optimizer=optimizer)

    Call it on all ranks, once, before the first backward. Gradients come out of backward as
    they do without: the mean over the ranks, the same bits on every rank. What was not sent
    stays in the residual, by parameter, and joins a later step's gradient. On a step with a
    gradient that is not finite every rank gets NaN back, so that a GradScaler skips the step,
    and nothing of the residuals is lost.

    optimizer    what the gradients are for. SGD's momentum is taken out of it and into the
                 memory (dgc), before the exchange, with a warning that says so; for others
                 with a memory of gradients, as Adam, topknot.DistributedOptimizer() is right.
                 Its learning rate goes to memories that ask for it, as residual:lr=inside
    scheme       a name of topknot.schemes(); memory, compressor and collective replace its
                 parts, each with parameters as in "oktopk:tau=64". "auto" is knot or dense, bucket
                 by bucket, whichever is measured to be faster, which takes a second or some; a
                 warning on rank 0 says what was taken and why

    node_group   two levels: inside a node gradients are summed whole, by the job's own backend, and
                 each rank exchanges its shard of the sum with those of other nodes. "auto": a node
                 is a host; or so many ranks to a node, or on every rank the group of its node's

    Other options, with what they are for, are in topknot.options():

    density      in (0, 1], 0.01 by default; 1 sends everything
    schedule     density over time instead of the scheme's: "constant", "dense:steps=512" or
                 "exponential:stages=4,period=100,from=0.25"; the schemes dgc and oktopk
                 have a warm-up, the others are constant
    steps_per_epoch
                 for schedules that count epochs, as dgc's does; without it a stage of
                 dgc's warm-up takes 100 steps
    clip         the longest gradient (L2) with the scheme dgc, which clips each rank's own at
                 clip / sqrt(ranks), bucket by bucket, before it joins the residual; with
                 other schemes clip after backward as without topknot
    rules        density by parameter name, the first that matches counts: "head.*=dense",
                 "embed*=0.05". Parameters of one dimension, biases and norms, are sent whole
                 unless a rule says otherwise, or dense_vectors=False.
    timeout      seconds until a rank that does not answer is given up: backward then ends
                 with a sentence that names it
    """
    model = without_wrapper(model)
    _refuse_what_cannot_be(model)
    named = list(without_wrapper(model.module).named_parameters())
    made = make_options("attach", scheme=scheme, density=density, **options)
    if made.exchange != "gradients":
        raise _core.ConfigError(
            "DDP exchanges gradients; for updates use topknot.DistributedOptimizer()."
        )
    trained = [(name, p) for name, p in named if p.requires_grad]
    auto = is_auto(made)
    if auto and node_group is not None:
        raise _core.ConfigError(
            'scheme="auto" measures exchanges between single ranks: name a scheme with node_group.'
        )
    made = decided(made, model.process_group, trained)
    # Behind a dense sum momentum is in its place.
    stays = auto and made.scheme == "dense"
    moves_momentum = optimizer is not None and _has_momentum(optimizer) and not stays
    if moves_momentum:
        made = dataclasses.replace(made, memory=_memory_for(optimizer, made.memory))
    if optimizer is None:
        refuse_rate_inside(made)
    coordinates = sum(p.numel() for _, p in trained)
    also = {"node_group": text_of(node_group), **shapes(trained)}
    sizes = {name: p.numel() for name, p in trained}
    session = open_session(model.process_group, made, coordinates, also, node_group, sizes)
    node = "" if session.levels is None else session.levels.node.group_name
    try:
        _core.register_hook(model.reducer, session.core, named, node)
    except RuntimeError as error:
        raise _core.ConfigError(
            "This model has a communication hook already, and DDP takes only one: build it "
            "anew and attach topknot instead."
        ) from error
    model.logger._set_comm_hook_name("topknot")
    model._comm_hooks.append((_python_reducer_hook, None))
    session.ddp = weakref.ref(model)
    session.auto = auto
    remember(model, session)
    if optimizer is not None:
        model.register_forward_pre_hook(_RateHook(session.core, optimizer))
    if moves_momentum:
        _take_momentum(optimizer, session.rank)
    elif session.rank == 0 and not (
        isinstance(optimizer, torch.optim.SGD)
        or _is_dgc(made)
        or all(session.core.sent_whole([(name, list(p.shape)) for name, p in trained]))
    ):
        _name_the_better_way()


class _RateHook:
    """Tells the engine the learning rate before each forward pass. A copy of the model that was
    pickled has one that does nothing."""

    def __init__(self, core: _core.Session, optimizer: torch.optim.Optimizer) -> None:
        self._core = core
        self._optimizer = weakref.ref(optimizer)

    def __call__(self, *_) -> None:
        hand_over_rate(self._core, self._optimizer())

    def __reduce__(self):
        return _ignore_rate, ()


def _ignore_rate():
    return _ignored


def _ignored(*_) -> None:
    pass


def _has_momentum(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, torch.optim.SGD) and any(
        group["momentum"] > 0 for group in optimizer.param_groups
    )


def _memory_for(optimizer: torch.optim.Optimizer, memory: str) -> str:
    """With the momentum of an SGD."""
    if memory:
        raise _core.ConfigError(
            f"memory={memory!r} and an optimizer with momentum do not go together: the momentum "
            "would become the memory. Leave one of them out."
        )
    if optimizer.state:
        raise _core.ConfigError(
            "The optimizer has momentum from earlier steps, which would be lost: attach topknot "
            "before its first step."
        )
    kinds = {(g["momentum"], g["nesterov"], g["dampening"]) for g in optimizer.param_groups}
    if len(kinds) > 1 or min(kinds)[2] != 0:
        raise _core.ConfigError(
            "topknot.attach() takes one momentum, the same in all groups of the optimizer and "
            "without dampening: for this one use topknot.DistributedOptimizer()."
        )
    momentum, nesterov, _ = min(kinds)
    return f"dgc:momentum={momentum!r}" + (",nesterov=1" if nesterov else "")


def _take_momentum(optimizer: torch.optim.Optimizer, rank: int) -> None:
    momentum = optimizer.param_groups[0]["momentum"]
    for group in optimizer.param_groups:
        group["momentum"] = 0
        group["nesterov"] = False
        group["weight_decay"] = group["weight_decay"] / (1 - momentum)
    if rank == 0:
        warnings.warn(
            f"topknot has taken the optimizer's momentum of {momentum} into its memory, before "
            "the exchange, and has set it to 0 in the optimizer; weight decay, which momentum "
            "does not multiply any more, is divided by 1 - momentum.",
            stacklevel=3,
        )


def _is_dgc(options: Options) -> bool:
    """Whether momentum is in the memory already."""
    memory = options.memory or _core.memory_of(options.scheme)
    return memory.split(":")[0] == "dgc"


_better_way_is_named = False


def _name_the_better_way() -> None:
    global _better_way_is_named
    if _better_way_is_named:
        return
    _better_way_is_named = True
    warnings.warn(
        "Momentum and Adam often train worse behind an exchange of sparse gradients: "
        "topknot.DistributedOptimizer(optimizer, model.named_parameters()), without DDP, "
        "exchanges the optimizer's updates; or give attach(..., optimizer=) an SGD.",
        stacklevel=3,
    )


def _python_reducer_hook(state, bucket):
    raise _core.ConfigError(
        "topknot works with DDP's own reducer; set torch._dynamo.config.optimize_ddp to "
        "True, not to \"python_reducer\"."
    )


def _refuse_what_cannot_be(model: DistributedDataParallel) -> None:
    if not isinstance(model, DistributedDataParallel):
        raise _core.ConfigError(
            f"topknot.attach() takes a DistributedDataParallel model, not a "
            f"{type(model).__name__}; without DDP use topknot.DistributedOptimizer()."
        )
    if has_session(model):
        raise _core.ConfigError(
            "topknot is attached to this model already; to change anything build DDP anew."
        )
    if model.mixed_precision is not None:
        raise _core.ConfigError(
            "DDP's mixed_precision= brings a communication hook of its own, and only one is "
            "possible: use torch.autocast, or a model in bf16, instead."
        )
    if model._use_python_reducer:
        raise _core.ConfigError(
            "DDP was built with torch._dynamo.config.optimize_ddp = \"python_reducer\", which "
            "has no buckets to hook into: set it to True before building DDP."
        )
    if model._comm_hooks:
        raise _core.ConfigError(
            "This model has a communication hook already, and DDP takes only one: build it "
            "anew and attach topknot instead."
        )
    for name, module in model.module.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise _core.ConfigError(
                f"{name} has sparse=True, and topknot reduces dense gradients only: make it "
                "with sparse=False."
            )
