# SPDX-License-Identifier: Apache-2.0
"""Parameters put together into flat vectors, each of which is exchanged as one."""

import dataclasses
from collections.abc import Iterator

import torch

from topknot import _core

NamedParameters = list[tuple[str, torch.nn.Parameter]]


@dataclasses.dataclass(eq=False)
class Bucket:
    slot: int
    flat: torch.Tensor
    slices: list[tuple[torch.nn.Parameter, int]]
    missing: int = 0  # gradients that are still to come
    ticket: _core.Ticket | None = None

    def places(self) -> Iterator[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Each parameter with its part of `flat`, in its shape."""
        for parameter, offset in self.slices:
            yield parameter, self.flat[offset : offset + parameter.numel()].view(parameter.shape)

    def take_gradients(self) -> None:
        for parameter, place in self.places():
            if parameter.grad is None:
                place.zero_()
            else:
                place.copy_(parameter.grad)

    def give_gradients(self) -> None:
        for parameter, place in self.places():
            if parameter.grad is None:
                parameter.grad = place.to(parameter.dtype, copy=True)
            else:
                parameter.grad.copy_(place)

    def take_weights(self) -> None:
        for parameter, place in self.places():
            place.copy_(parameter)

    def give_weights(self) -> None:
        for parameter, place in self.places():
            parameter.copy_(place)

    def subtract_from_weights(self) -> None:
        for parameter, place in self.places():
            parameter.sub_(place)

    def is_finite(self) -> bool:
        """Whether the mean is finite, and so to be used: else it is all NaN."""
        return bool(self.flat[:1].isfinite().all())

    def wait(self) -> None:
        assert self.ticket is not None
        self.ticket.wait()
        self.ticket = None


def make_buckets(
    core: _core.Session, parameters: NamedParameters, bucket_bytes: int
) -> list[Bucket]:
    """As the C++ engine would make them: of at most about `bucket_bytes`, last parameters
    first, with what is sent whole in one of its own, which comes last."""
    by_device: dict[torch.device, NamedParameters] = {}
    for one in parameters:
        by_device.setdefault(one[1].device, []).append(one)
    buckets = []
    for own in reversed(by_device.values()):
        plans = core.plan_buckets([(name, list(p.shape)) for name, p in own], bucket_bytes)
        buckets += [_make(core, [own[i] for i in plan]) for plan in plans]
    return buckets


def settle_residuals(core: _core.Session, buckets: list[Bucket]) -> bool:
    """Subtracts the mean of the residuals from the weights. Returns False, and leaves everything
    as it was, where a sum is not finite."""
    for bucket in buckets:
        bucket.ticket = core.reduce_residuals(bucket.slot, bucket.flat)
    core.end_settling()
    for bucket in buckets:
        bucket.wait()
    finite = all(bucket.is_finite() for bucket in buckets)
    if finite:
        for bucket in buckets:
            bucket.subtract_from_weights()
    return finite


def _make(core: _core.Session, pack: NamedParameters) -> Bucket:
    device = pack[0][1].device
    slot = core.add_slot([(name, list(p.shape)) for name, p in pack], device)
    kind = torch.float32
    for _, parameter in pack:
        kind = torch.promote_types(kind, parameter.dtype)  # so that weights fit in unrounded
    size = sum(p.numel() for _, p in pack)
    bucket = Bucket(slot, torch.zeros(size, dtype=kind, device=device), [], len(pack))
    offset = 0
    for _, parameter in pack:
        bucket.slices.append((parameter, offset))
        offset += parameter.numel()
    return bucket
