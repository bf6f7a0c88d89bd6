# SPDX-License-Identifier: Apache-2.0
"""Data parallelism without DDP: gradients are reduced as autograd makes them."""

import dataclasses
import weakref
from collections.abc import Iterable
from typing import TypeVar

import torch
import torch.distributed as dist

from topknot import _core
from topknot._agreement import shapes
from topknot._session import Options, Session, has_session, open_session, remember

AnyOptimizer = TypeVar("AnyOptimizer", bound=torch.optim.Optimizer)


def DistributedOptimizer(  # noqa: N802, the name that users of others know
    optimizer: AnyOptimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
    scheme: str = "knot",
    density: float = 0.01,
    *,
    memory: str | None = None,
    compressor: str | None = None,
    collective: str | None = None,
    schedule: str | None = None,
    steps_per_epoch: int | None = None,
    clip: float = 0.0,
    rules: Iterable[str] = (),
    timeout: float = 60.0,
    process_group: dist.ProcessGroup | None = None,
    backward_passes_per_step: int = 1,
    bucket_mb: float = 25.0,
    broadcast: bool = True,
    rollback: bool = True,
) -> AnyOptimizer:
    """Makes `optimizer` step on the mean of all ranks' gradients, sparsified.

    Returns the same optimizer, so schedulers and the rest work on. Gradients are put
    together into buckets of about `bucket_mb`, last parameters first, and sent while
    backward goes on; optimizer.step() waits for them. With a GradScaler, or to clip
    gradients, call topknot.synchronize(optimizer) after backward. `broadcast` hands out rank
    0's parameters first. The other arguments are those of topknot.attach().
    """
    if has_session(optimizer):
        raise _core.ConfigError("This optimizer is distributed by topknot already.")
    parameters = [(name, p) for name, p in named_parameters if p.requires_grad]
    options = Options(
        scheme=scheme,
        density=float(density),
        memory=memory,
        compressor=compressor,
        collective=collective,
        schedule=schedule,
        steps_per_epoch=int(steps_per_epoch or 0),
        clip=float(clip),
        coordinates=sum(p.numel() for _, p in parameters),
        rules=tuple(rules),
        rollback=rollback,
        timeout=float(timeout),
    )
    also = {
        "backward_passes_per_step": str(backward_passes_per_step),
        "bucket_mb": str(bucket_mb),
        "broadcast": str(broadcast),
        **shapes(parameters),
    }
    session = open_session(process_group, options, also)
    if broadcast:
        source = dist.get_process_group_ranks(process_group or dist.group.WORLD)[0]
        for _, parameter in parameters:
            dist.broadcast(parameter.data, source, group=process_group)
    backward = _Backward(session, parameters, int(bucket_mb * 2**20), backward_passes_per_step)
    optimizer.register_step_pre_hook(lambda *_: backward.synchronize())
    remember(optimizer, session)
    _backwards[optimizer] = backward
    return optimizer


def synchronize(optimizer: torch.optim.Optimizer) -> None:
    """Waits until the gradients are reduced; optimizer.step() then does not."""
    if optimizer not in _backwards:
        raise _core.ConfigError(
            "topknot.synchronize() takes what DistributedOptimizer() has returned."
        )
    _backwards[optimizer].synchronize()


@dataclasses.dataclass(eq=False)
class _Bucket:
    plan: int
    flat: torch.Tensor
    slices: list[tuple[torch.nn.Parameter, int]]
    missing: int = 0  # gradients that are still to come
    ticket: _core.Ticket | None = None


class _Backward:
    """Counts gradients into buckets, and sends the buckets in the order of their numbers."""

    def __init__(
        self,
        session: Session,
        parameters: list[tuple[str, torch.nn.Parameter]],
        bucket_bytes: int,
        passes: int,
    ) -> None:
        self._core = session.core
        self._passes = passes
        self._buckets: list[_Bucket] = []
        self._next = 0  # the bucket to be sent next
        self._seen: dict[torch.nn.Parameter, int] = {}
        pack: list[tuple[str, torch.nn.Parameter]] = []
        for name, parameter in reversed(parameters):
            if pack and self._is_full(pack, parameter, bucket_bytes):
                self._add(pack)
                pack = []
            pack.append((name, parameter))
        if pack:
            self._add(pack)

    @staticmethod
    def _is_full(pack: list, parameter: torch.nn.Parameter, limit: int) -> bool:
        size = sum(p.numel() * p.element_size() for _, p in pack)
        return size >= limit or pack[0][1].device != parameter.device

    def _add(self, pack: list[tuple[str, torch.nn.Parameter]]) -> None:
        plan = self._core.add_plan([(name, list(p.shape)) for name, p in pack])
        size = sum(p.numel() for _, p in pack)
        bucket = _Bucket(plan, torch.zeros(size, device=pack[0][1].device), [], len(pack))
        offset = 0
        number = len(self._buckets)
        for _, parameter in pack:
            bucket.slices.append((parameter, offset))
            offset += parameter.numel()
            parameter.register_post_accumulate_grad_hook(self._counter(number))
        self._buckets.append(bucket)

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
        bucket = self._buckets[self._next]
        self._next += 1
        for parameter, offset in bucket.slices:
            place = bucket.flat[offset : offset + parameter.numel()]
            if parameter.grad is None:
                place.zero_()
            else:
                place.copy_(parameter.grad.reshape(-1))
        last = self._next == len(self._buckets)
        bucket.ticket = self._core.reduce(bucket.plan, bucket.flat, last)

    @torch.no_grad()
    def synchronize(self) -> None:
        if not self._seen:
            return  # there was no backward since
        while self._next < len(self._buckets):  # parameters that this step did not use
            self._send()
        for bucket in self._buckets:
            assert bucket.ticket is not None
            bucket.ticket.wait()
            bucket.ticket = None
            bucket.missing = len(bucket.slices)
            for parameter, offset in bucket.slices:
                mean = bucket.flat[offset : offset + parameter.numel()].view(parameter.shape)
                if parameter.grad is None:
                    parameter.grad = mean.to(parameter.dtype, copy=True)
                else:
                    parameter.grad.copy_(mean)
        self._next = 0
        self._seen.clear()


_backwards: "weakref.WeakKeyDictionary[torch.optim.Optimizer, _Backward]" = (
    weakref.WeakKeyDictionary()
)
