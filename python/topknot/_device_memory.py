# SPDX-License-Identifier: Apache-2.0
"""The residual of a bucket on the device that its gradient is on: the memories residual and dgc,
and what collectives do to a residual.

    begin      the bucket's gradient of this step
    select     fold, and the k largest of the sum, which go to the host
    settle     zeros or rounding errors where something was sent, add what others have put back
    write      the mean, into the bucket
    finish     the step has gone through here, or has not

Called by python/src/device_vector.cc on the communication thread. Only select(), fold(), gather()
and take_out() wait for the device. An undone fold costs nothing: the sum is made in a vector beside
the residual.
"""

import ctypes
from typing import Any

import torch

from topknot import device_kernels
from topknot._device_queue import HostBuffers, Queue

Pieces = list[tuple[int, int]]  # offset and size
_FOLDED = (torch.float32, torch.bfloat16, torch.float16)


class _Later:
    """What a piece of queued work leaves to those behind it."""

    value: Any = None


class DeviceMemory:
    """`parameters` are those of the memory, as in "decay=0.95"."""

    def __init__(self, queue: Queue, size: int, kind: str, parameters: str) -> None:
        given = dict(one.split("=", 1) for one in parameters.split(",") if one)
        self._queue = queue
        self._host = HostBuffers(queue)
        self.size = size
        self.kind = kind
        self.last_rate = 0.0  # of residual:lr=inside
        self._decay = ctypes.c_float(float(given.get("decay", 1))).value
        self._decay_is_due = False
        self._inside = given.get("lr") == "inside"
        self._masking = given.get("masking", "1") == "1"
        self._momentum = float(given.get("momentum", 0.9))
        self._nesterov = given.get("nesterov", "0") == "1"
        self.is_used = False  # else all is zero
        self._made = False

    def _vectors(self) -> "DeviceMemory":
        """This, with its vectors: a bucket that is sent whole needs none."""
        if not self._made:
            self._made = True
            self._residual = self._zeros()
            self._spare = self._zeros()  # the sum, then what the residual was before
            self._moment: device_kernels.Momentum | None = None
            if self.kind == "dgc":
                self._moment = device_kernels.Momentum(
                    self._zeros(), self._zeros(), self._momentum, nesterov=self._nesterov, dgc=True
                )
        return self

    def _zeros(self) -> torch.Tensor:
        return torch.zeros(self.size, device=self._queue.device)

    def names(self) -> list[str]:
        return ["residual", "velocity"] if self.kind == "dgc" else ["residual"]

    def bytes(self) -> int:
        return 4 * self.size * (4 if self.kind == "dgc" else 2)

    # ---- the bucket

    def begin(self, x: torch.Tensor) -> None:
        self._batches = 0
        self._queue.run(lambda: self._begin(x.detach()))

    def _begin(self, x: torch.Tensor) -> None:
        self._x = x
        self._flat = x.reshape(-1)  # a copy, where the memory is in another order

    def take_out(self, pieces: Pieces, to: torch.Tensor) -> None:
        """Copies these to `to`, which is on the host, and leaves zeros."""
        buffer = self._host.take("pieces", to.numel(), torch.float32)

        def work() -> None:
            found = [self._flat[offset : offset + size] for offset, size in pieces]
            self._queue.to_host(buffer, torch.cat(found).float())
            for one in found:
                one.zero_()

        self._queue.run(work)
        self._queue.event().synchronize()
        to.copy_(buffer)

    def put_back(self, pieces: Pieces, values: torch.Tensor) -> None:
        sent = self._send("pieces", values)

        def work() -> None:
            parts = sent.value.split([size for _, size in pieces])
            for (offset, size), part in zip(pieces, parts, strict=True):
                self._flat[offset : offset + size] = part
            self._give_back()

        self._queue.run(work)

    def write(self, index: torch.Tensor, mean: torch.Tensor) -> None:
        """The bucket becomes `mean` at `index`, and zero elsewhere."""
        places, values = self._send("mean index", index), self._send("mean", mean)

        def work() -> None:
            self._flat.zero_()
            self._flat.index_copy_(0, places.value.long(), values.value.to(self._flat.dtype))
            self._give_back()

        self._queue.run(work)

    def spoil(self) -> None:
        """The step is not finite."""

        def work() -> None:
            self._flat.fill_(torch.nan)
            self._give_back()

        self._queue.run(work)

    def _give_back(self) -> None:
        if self._flat.data_ptr() != self._x.data_ptr():
            self._x.copy_(self._flat.view(self._x.shape))

    # ---- the memory

    def before(self, rate: float) -> None:
        self._decay_if_due()
        if not self._inside or not rate > 0:
            return
        if self.last_rate > 0 and rate != self.last_rate:
            self._scale(ctypes.c_float(self.last_rate / rate).value)
        self.last_rate = rate

    def after(self, settled: torch.Tensor | None, at_selected: bool) -> None:
        """The exchange has gone through: settle() was for all of `settled` where that is None."""
        self._decay_is_due = self._decay != 1
        if self.kind != "dgc":
            return
        self._queue.run(self._swap_moment)
        if self._masking and settled is not None:
            sent = self._send("masked", settled)
            self._queue.run(
                lambda: self._erase(self._moment.now, sent.value, at_selected)
            )

    def undo_step(self) -> None:
        self._decay_is_due = False
        if self.kind == "dgc":
            self._queue.run(self._swap_moment)

    def undo_sum(self, index: torch.Tensor, mean: torch.Tensor) -> None:
        places, values = self._send("mean index", index), self._send("mean", mean)

        def work() -> None:
            residual, at = self._residual, places.value.long()
            before = residual[at]
            total = before + values.value
            residual.index_copy_(0, at, torch.where(total.isfinite(), total, before))

        self._queue.run(work)

    def _swap_moment(self) -> None:
        moment = self._moment
        assert moment is not None
        moment.now, moment.next = moment.next, moment.now

    def _decay_if_due(self) -> None:
        if self._decay_is_due:
            self._scale(self._decay)
        self._decay_is_due = False

    def _scale(self, factor: float) -> None:
        self._queue.run(lambda: _run(self._vectors()._residual.mul_(factor)))

    # ---- the residual, as a collective uses it

    def fold(self) -> bool:
        return self._go_through(0)[0]

    def select(self, k: int) -> tuple[bool, torch.Tensor, torch.Tensor]:
        """Whether all is finite; positions and values, on the host until the next select()."""
        return self._go_through(k)

    def undo_fold(self) -> None:
        self._queue.run(self._swap)

    def gather(self, index: torch.Tensor, values: torch.Tensor) -> None:
        places = self._send("positions", index)
        buffer = self._host.take("gathered", index.numel(), torch.float32)
        self._queue.run(
            lambda: self._queue.to_host(buffer, self._residual[places.value.long()])
        )
        self._queue.event().synchronize()
        values.copy_(buffer)

    def settle(self, where: torch.Tensor, at_selected: bool, error: torch.Tensor) -> None:
        """`where` has positions; or, `at_selected`, a bit for each that was selected, and `error`
        then has a value for each of these. No error: zeros."""
        sent, kept = self._send("settled", where), self._send("error", error)
        self._queue.run(
            lambda: self._erase(self._residual, sent.value, at_selected, kept.value)
        )

    def add(self, index: torch.Tensor, values: torch.Tensor) -> None:
        self._batches += 1  # each has buffers of its own, so that none waits for the one before it
        places = self._send(f"added at {self._batches}", index)
        added = self._send(f"added {self._batches}", values)

        def work() -> None:
            residual, at = self._residual, places.value.long()
            residual.index_copy_(0, at, residual[at] + added.value)

        self._queue.run(work)

    def _erase(self, vector, where, at_selected: bool, error=None) -> None:
        error = None if error is None or error.numel() == 0 else error
        if not at_selected:
            at = where.long()
            vector.index_copy_(0, at, torch.zeros_like(vector[at]) if error is None else error)
            return
        at = self._index.long()
        bits = torch.arange(8, dtype=torch.uint8, device=where.device)
        settled = ((where.unsqueeze(1) >> bits) & 1).view(-1)[: at.numel()].bool()
        after = torch.zeros_like(vector[at]) if error is None else error
        vector.index_copy_(0, at, torch.where(settled, after, vector[at]))

    def _swap(self) -> None:
        self._residual, self._spare = self._spare, self._residual

    def _go_through(self, k: int) -> tuple[bool, torch.Tensor, torch.Tensor]:
        """The steps of a selection, each queued when the host has read what the last one asked."""
        self.is_used = True
        asked = self._host.take("numbers", 4, torch.int64)
        index = self._host.take("index", min(k, self.size), torch.int32)
        value = self._host.take("value", min(k, self.size), torch.float32)
        steps = _Later()
        found = _Later()
        answer: list[int] | None = None

        def advance() -> None:
            try:
                if answer is None:
                    steps.value = self._steps(k)
                self._queue.to_host(asked, steps.value.send(answer))
            except StopIteration as done:
                found.value = done.value
                if found.value.finite:
                    self._swap()
                    self._index = found.value.index
                    self._queue.to_host(index, found.value.index)
                    self._queue.to_host(value, found.value.value)

        while found.value is None:
            self._queue.run(advance)
            self._queue.event().synchronize()
            answer = asked.tolist()
        size = found.value.index.numel()
        return found.value.finite, index[:size], value[:size]

    def _steps(self, k: int) -> device_kernels.Steps:
        flat = self._flat if self._flat.dtype in _FOLDED else self._flat.float()
        self._vectors()
        return device_kernels.topk_steps(
            self._residual, flat, k, out=self._spare, memory=self._moment
        )

    # ---- the state

    def fetch(self, name: str, to: torch.Tensor) -> None:
        self._decay_if_due()
        buffer = self._queue.host_buffer(self.size, torch.float32)  # rare, so not kept
        self._queue.run(lambda: self._queue.to_host(buffer, self._vector(name)))
        self._queue.event().synchronize()
        to.copy_(buffer)

    def load(self, name: str, values: torch.Tensor) -> None:
        self.is_used = True
        buffer = self._queue.host_buffer(self.size, torch.float32)
        buffer.copy_(values)
        self._queue.run(lambda: _run(self._vector(name).copy_(self._queue.to_device(buffer))))
        self._queue.event().synchronize()

    def clear(self) -> None:
        self._queue.run(lambda: _run(self._vectors()._residual.zero_()))

    def _vector(self, name: str) -> torch.Tensor:
        moment = self._vectors()._moment
        if name == "velocity":
            assert moment is not None
            return moment.now
        return self._residual

    def _send(self, name: str, values: torch.Tensor) -> _Later:
        """Queues the copy of `values`, which are on the host, to the device."""
        sent = _Later()
        buffer = self._host.take(name, values.numel(), values.dtype)
        buffer.copy_(values)

        def work() -> None:
            sent.value = self._queue.to_device(buffer)

        self._queue.run(work)
        self._host.used_until(name, self._queue.event())
        return sent


def _run(_: torch.Tensor) -> None:
    """For work that is one operation."""
