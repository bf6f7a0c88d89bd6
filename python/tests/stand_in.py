# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a device, with two queues: the one of the gradient's kernels, and the one of the
session.

Queued work runs as late as it may: when somebody waits for an event behind it, or calls finish().
So what reads before its event, or writes into a buffer whose copy is still to come, reads or sends
other bits, every time. With `late=False` the session's work runs as soon as it is queued, for
callers that know nothing of the stand-in, as DDP."""

import threading
from collections.abc import Callable

import torch


class Queue:
    def __init__(self, late: bool) -> None:
        self.device = torch.device("cpu")
        self._late = late
        self._lock = threading.RLock()
        self._work: list[Callable[[], None]] = []
        self._done = 0
        self.host_bytes = 0
        self.device_bytes = 0
        self.copies = 0

    def run(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._work.append(work)
        if not self._late:
            self.finish()

    def event(self) -> "Event":
        return Event(self, len(self._work))

    def finish(self, until: int | None = None) -> None:
        with self._lock:
            end = len(self._work) if until is None else until
            while self._done < end:
                work = self._work[self._done]
                self._done += 1
                work()

    def pending(self) -> int:
        return len(self._work) - self._done

    def host_buffer(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        poison = torch.nan if dtype.is_floating_point else 0x55
        return torch.full((size,), poison, dtype=dtype)

    def to_host(self, buffer: torch.Tensor, values: torch.Tensor) -> None:
        self.host_bytes += values.nbytes
        self.copies += 1
        buffer.copy_(values)

    def to_device(self, buffer: torch.Tensor) -> torch.Tensor:
        self.device_bytes += buffer.nbytes
        self.copies += 1
        return buffer.clone()


class Event:
    def __init__(self, queue: Queue, place: int) -> None:
        self._queue = queue
        self._place = place

    def synchronize(self) -> None:
        self._queue.finish(self._place)


class StandIn:
    def __init__(self, late: bool = True) -> None:
        self.kernels = Queue(late=True)  # of the gradient
        self.queue = Queue(late)
        self.recorded = 0
        self.gate: threading.Event | None = None  # closed: the kernels are not through

    # ---- what a session calls

    def record(self, _: torch.Tensor) -> Event:
        """On the thread that has the gradient."""
        self.recorded += 1
        return self.kernels.event()

    def wait(self, event: Event) -> None:
        """The session's queue waits for the kernels."""

        def work() -> None:
            if self.gate is not None:
                assert self.gate.wait(30), "the kernels are held up by those who wait for them"
            event.synchronize()

        self.queue.run(work)
