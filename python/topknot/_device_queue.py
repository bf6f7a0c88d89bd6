# SPDX-License-Identifier: Apache-2.0
"""Work on a device in the order of a queue, and copies between its memory and the host's.

A session's communication thread has a queue of its own on every device. What it runs there waits
for the event that was recorded behind the gradient's kernels; the host reads a copy only behind
the event that was recorded behind the copy.
"""

from collections.abc import Callable
from typing import Protocol

import torch


class Event(Protocol):
    def synchronize(self) -> None:
        """Waits until the device has done what was queued before it."""


class Queue(Protocol):
    """What _device_memory.py is written against. `work` is queued, and may run at any time behind
    what was queued before; the copies are called inside of it."""

    device: torch.device

    def run(self, work: Callable[[], None]) -> None: ...
    def event(self) -> Event:
        """Behind what has been queued so far."""

    def host_buffer(self, size: int, dtype: torch.dtype) -> torch.Tensor: ...
    def to_host(self, buffer: torch.Tensor, values: torch.Tensor) -> None: ...
    def to_device(self, buffer: torch.Tensor) -> torch.Tensor: ...


class StreamQueue:
    """A stream of torch: the one that is current on the communication thread, which the session has
    made for it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def run(self, work: Callable[[], None]) -> None:
        work()

    def event(self) -> Event:
        event = torch.Event(self.device)
        event.record()
        return event

    def host_buffer(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(size, dtype=dtype, pin_memory=True)

    def to_host(self, buffer: torch.Tensor, values: torch.Tensor) -> None:
        buffer.copy_(values, non_blocking=True)

    def to_device(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer.to(self.device, non_blocking=True)


class HostBuffers:
    """Pinned memory that is used again and again, a buffer for each purpose."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._buffers: dict[tuple[str, torch.dtype], torch.Tensor] = {}
        self._used: dict[str, Event] = {}  # by the copy behind which a buffer is free

    def take(self, name: str, size: int, dtype: torch.dtype) -> torch.Tensor:
        """A buffer that no copy is under way from or to."""
        used = self._used.pop(name, None)
        if used is not None:
            used.synchronize()
        buffer = self._buffers.get((name, dtype))
        if buffer is None or buffer.numel() < size:
            buffer = self._queue.host_buffer(size + size // 4, dtype)
            self._buffers[name, dtype] = buffer
        return buffer[:size]

    def used_until(self, name: str, event: Event) -> None:
        self._used[name] = event
