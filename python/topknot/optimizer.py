# SPDX-License-Identifier: Apache-2.0
"""Data parallelism without DDP, by the optimizer: its updates are exchanged, or the gradients,
as autograd makes them."""

import math
import warnings
import weakref
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from topknot import _core
from topknot._agreement import shapes
from topknot._buckets import NamedParameters, make_buckets
from topknot._options import make_options
from topknot._session import (
    Session,
    hand_over_rate,
    has_session,
    open_session,
    remember,
    session_of,
)
from topknot._updates import FIRST_MOMENTS, Gain, Updates

AnyOptimizer = TypeVar("AnyOptimizer", bound=torch.optim.Optimizer)


def DistributedOptimizer(  # noqa: N802, the name that users of others know
    optimizer: AnyOptimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
    scheme: str | None = None,
    density: float | None = None,
    *,
    exchange: str = "updates",
    first_moments: Iterable[str] = FIRST_MOMENTS,
    gain: Gain = "auto",
    process_group: dist.ProcessGroup | None = None,
    backward_passes_per_step: int = 1,
    bucket_mb: float = 25.0,
    broadcast: bool = True,
    **options: Any,
) -> AnyOptimizer:
    """Makes the ranks train one model with `optimizer`, exchanging little.

    Returns the same optimizer, so schedulers and the rest work on. After optimizer.step() all
    ranks have the same weights, bit for bit.

    exchange     "updates": the optimizer takes its step on this rank's own gradients. The
                 change of the weights joins the residual, the ranks agree on the mean of
                 about `density` of it, and that is subtracted from the weights they had. Any
                 optimizer will do. The exchange is in optimizer.step().
                 "gradients": the mean of the gradients is agreed on, while backward goes on,
                 and the optimizer steps on it: sparse gradients, which momentum and Adam take
                 badly.
                 What is sent whole, as biases and norms are, and all of it at density 1, has
                 its gradients reduced with either.
    first_moments
                 names in optimizer.state, by parameter: with updates they become zero where
                 this rank's residual was settled
    gain         with updates the change is multiplied by it; "auto" is the square root of the
                 number of ranks where the optimizer has a second moment, for that of one rank
                 holds that much more noise than that of the mean, and else 1. Decoupled
                 weight decay is not multiplied: it is of the agreed weights.
    clip         with updates the longest gradient (L2): each rank's own is clipped at
                 clip * sqrt(ranks) before its step

    Parameters are put together into buckets of about `bucket_mb`, last parameters first.
    `broadcast` sends rank 0's parameters to all ranks first. With a GradScaler call
    topknot.synchronize(optimizer) after backward; with gradients to clip them, too. With
    gradients say `backward_passes_per_step`; with updates gradients may be accumulated as
    one likes. The other options are those of topknot.attach().
    """
    if has_session(optimizer):
        raise _core.ConfigError("This optimizer is distributed by topknot already.")
    parameters = [(name, p) for name, p in named_parameters if p.requires_grad]
    made = make_options(
        "DistributedOptimizer", scheme=scheme, density=density, exchange=exchange, **options
    )
    moments = tuple(first_moments)
    also = {
        "backward_passes_per_step": str(backward_passes_per_step),
        "bucket_mb": str(bucket_mb),
        "broadcast": str(broadcast),
        "first_moments": " ".join(moments),
        "gain": str(gain),
        **shapes(parameters),
    }
    coordinates = sum(p.numel() for _, p in parameters)
    session = open_session(process_group, made, coordinates, also)
    _check_gain(gain)
    if broadcast:
        source = dist.get_process_group_ranks(process_group or dist.group.WORLD)[0]
        for _, parameter in parameters:
            dist.broadcast(parameter.data, source, group=process_group)
    bucket_bytes = int(bucket_mb * 2**20)
    if exchange == "updates":
        own = _of_optimizer(optimizer, parameters)
        is_whole = session.core.sent_whole([(name, list(p.shape)) for name, p in own])
    if exchange == "updates" and (made.clip > 0 or not all(is_whole)):
        updates = Updates(
            session, own, is_whole, bucket_bytes, clip=made.clip, gain=gain, first_moments=moments
        )
        optimizer.register_step_pre_hook(_without_closure(updates.begin))
        optimizer.register_step_post_hook(lambda this, *_: updates.finish(this))
        _updates[optimizer] = updates
    else:
        passes = backward_passes_per_step
        backward = _Backward(session, optimizer, parameters, bucket_bytes, passes)
        optimizer.register_step_pre_hook(_without_closure(lambda _: backward.synchronize()))
        _backwards[optimizer] = backward
    remember(optimizer, session)
    return optimizer


def _check_gain(gain: Gain) -> None:
    if gain != "auto" and (isinstance(gain, str) or not (gain > 0 and math.isfinite(gain))):
        raise _core.ConfigError(f'gain={gain!r} is neither "auto" nor a number above 0.')


def _of_optimizer(
    optimizer: torch.optim.Optimizer, parameters: NamedParameters
) -> NamedParameters:
    held = {p for group in optimizer.param_groups for p in group["params"]}
    return [(name, p) for name, p in parameters if p in held]


def _without_closure(begin):
    def hook(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict[str, Any]) -> None:
        if kwargs.get("closure") is not None or any(callable(one) for one in args[1:]):
            raise _core.ConfigError(
                "optimizer.step(closure) runs backward inside the step, where topknot cannot "
                "exchange its gradients: run backward first, and call step() without."
            )
        begin(optimizer)

    return hook


def settle(optimizer: torch.optim.Optimizer) -> None:
    """Settles all residuals: one dense exchange, whose mean is subtracted from the weights.

    For the end of training, when the learning rate has come down: residuals hold the changes
    of about 1 / density steps, and at the full rate they are too large a step. All ranks call
    it, with what DistributedOptimizer(exchange="updates") has returned. All buckets are settled,
    or none, where a sum is not finite. Without residuals, as at density 1, it does nothing.
    """
    if session_of(optimizer).options.exchange != "updates":
        raise _core.ConfigError(
            "Residuals of gradients cannot be settled, for they are no change of the weights: "
            'topknot.settle() is for DistributedOptimizer(exchange="updates").'
        )
    if optimizer in _updates and not _updates[optimizer].settle():
        warnings.warn(
            "The sum of the residuals is not finite in some bucket: nothing was settled.",
            RuntimeWarning,
            stacklevel=2,
        )


def synchronize(optimizer: torch.optim.Optimizer) -> None:
    """With gradients: waits until they are reduced; optimizer.step() then does not.
    With updates: makes all gradients NaN on all ranks where one is not finite on any, so that
    all of them skip the step."""
    if optimizer in _updates:
        _updates[optimizer].synchronize(optimizer)
    elif optimizer in _backwards:
        _backwards[optimizer].synchronize()
    else:
        raise _core.ConfigError(
            "topknot.synchronize() takes what DistributedOptimizer() has returned."
        )


class _Backward:
    """Counts gradients into buckets, and sends the buckets in the order of their numbers."""

    def __init__(
        self,
        session: Session,
        optimizer: torch.optim.Optimizer,
        parameters: NamedParameters,
        bucket_bytes: int,
        passes: int,
    ) -> None:
        self._core = session.core
        self._optimizer = weakref.ref(optimizer)
        self._passes = passes
        self._buckets = make_buckets(self._core, parameters, bucket_bytes)
        self._next = 0  # the bucket to be sent next
        self._seen: dict[torch.nn.Parameter, int] = {}
        for number, bucket in enumerate(self._buckets):
            for parameter, _ in bucket.slices:
                parameter.register_post_accumulate_grad_hook(self._counter(number))

    def _counter(self, number: int):
        me = weakref.ref(self)

        def count(parameter: torch.Tensor) -> None:
            backward = me()
            if backward is not None:
                backward._count(number, parameter)

        return count

    def _count(self, number: int, parameter: torch.Tensor) -> None:
        self._seen[parameter] = self._seen.get(parameter, 0) + 1
        if self._seen[parameter] > self._passes:
            raise _core.ConfigError(
                f"backward came {self._seen[parameter]} times before optimizer.step(), and "
                f"backward_passes_per_step is {self._passes}."
            )
        if self._seen[parameter] == self._passes:
            self._buckets[number].missing -= 1
            while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
                self._send()

    def _send(self) -> None:
        if self._next == 0:
            hand_over_rate(self._core, self._optimizer())
        bucket = self._buckets[self._next]
        self._next += 1
        bucket.take_gradients()
        last = self._next == len(self._buckets)
        bucket.ticket = self._core.reduce(bucket.slot, bucket.flat, last)

    @torch.no_grad()
    def synchronize(self) -> None:
        if not self._seen:
            return  # there was no backward since
        while self._next < len(self._buckets):  # parameters that this step did not use
            self._send()
        for bucket in self._buckets:
            bucket.wait()
            bucket.missing = len(bucket.slices)
            bucket.give_gradients()
        self._next = 0
        self._seen.clear()


_backwards: "weakref.WeakKeyDictionary[torch.optim.Optimizer, _Backward]" = (
    weakref.WeakKeyDictionary()
)
_updates: "weakref.WeakKeyDictionary[torch.optim.Optimizer, Updates]" = (
    weakref.WeakKeyDictionary()
)
