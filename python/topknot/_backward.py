# SPDX-License-Identifier: Apache-2.0
"""Exchange of gradients, bucket by bucket, as autograd makes them."""

import weakref

import torch

from topknot import _core
from topknot._buckets import NamedParameters, make_buckets
from topknot._session import Session, hand_over_rate


class Backward:
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
