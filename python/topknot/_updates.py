# SPDX-License-Identifier: Apache-2.0
"""Exchange of updates: the optimizer takes a local step, and the ranks agree on its change.

    begin    before optimizer.step(): the gradients of what is sent whole are reduced, and the
             weights are kept
    step     the optimizer's own, on this rank's gradients
    finish   behind it: the change of the weights joins the residual and is reduced; the
             weights become those that were kept, less the agreed mean; first moments become
             zero where this rank's residual was settled

The weights that are kept lie in the buckets' own memory, until the change takes their place.
"""

import math
from collections.abc import Iterable

import torch

from topknot import _core
from topknot._buckets import Bucket, NamedParameters, make_buckets, settle_residuals
from topknot._own_step import (
    Gain,
    OwnStep,
    clip_gradients,
    gain_of,
    gradients_are_finite,
    rank_with_other_weights,
    refuse_unknown,
    spoil_unless_finite,
)
from topknot._session import Session

FIRST_MOMENTS = ("momentum_buffer", "exp_avg")  # what is masked unless told otherwise
_LASTS = 10  # steps, of a first moment with the usual factor of 0.9


class Updates:
    def __init__(
        self,
        session: Session,
        parameters: NamedParameters,
        is_whole: list[bool],
        bucket_bytes: int,
        *,
        clip: float,
        gain: Gain,
        first_moments: Iterable[str],
    ) -> None:
        self._core = session.core
        self._group = session.group
        self._known = {p for _, p in parameters}
        both = list(zip(parameters, is_whole, strict=True))
        self._whole = make_buckets(self._core, [one for one, whole in both if whole], bucket_bytes)
        self._sparse = make_buckets(
            self._core, [one for one, whole in both if not whole], bucket_bytes
        )
        self._names = [(name, list(p.shape)) for (name, p), whole in both if not whole]
        self._clip = clip
        self._gain = gain
        self._first_moments = tuple(first_moments)
        self._steps = 0
        self._step: _Step | None = None  # the one under way

    @torch.no_grad()
    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        self._drop_unfinished()
        refuse_unknown(optimizer, self._known)
        clip_gradients(optimizer, self._clip, self._core.size)
        sends_all = not self._sparse or self._core.density(self._names) >= 1
        finite = self._reduce_gradients(gradients_are_finite(optimizer), sends_all)
        self._step = _Step(optimizer, finite, sends_all)
        if not sends_all:
            self._step.keep_weights(self._whole, self._sparse)

    @torch.no_grad()
    def finish(self, optimizer: torch.optim.Optimizer) -> None:
        step, self._step = self._step, None
        assert step is not None
        try:
            if not step.sends_all:
                self._exchange(optimizer, step)
        finally:
            step.give_back()

    def _exchange(self, optimizer: torch.optim.Optimizer, step: "_Step") -> None:
        for bucket in self._sparse:
            self._take_changes(bucket, optimizer, step.finite)
            last = bucket is self._sparse[-1]
            bucket.ticket = self._core.reduce_update(bucket.slot, bucket.flat, last)
        settled = [_wait(bucket) for bucket in self._sparse]
        if all(bucket.is_finite() for bucket in self._sparse):
            step.decay(_held(self._sparse))
            for bucket, positions in zip(self._sparse, settled, strict=True):
                bucket.subtract_from_weights()
                self._mask(bucket, positions, optimizer)
        else:
            step.return_whole()
        self._steps += 1
        if self._steps & (self._steps - 1) == 0:  # 1, 2, 4, 8, ...
            self._compare_weights()

    def _drop_unfinished(self) -> None:
        """Undoes a step in which the optimizer has raised an exception."""
        step, self._step = self._step, None
        if step is not None:
            step.undo(self._sparse)

    @torch.no_grad()
    def synchronize(self, optimizer: torch.optim.Optimizer) -> None:
        self._drop_unfinished()
        spoil_unless_finite(optimizer, self._group)

    @torch.no_grad()
    def settle(self) -> bool:
        """Returns False, and leaves everything as it was, where a sum is not finite."""
        self._drop_unfinished()
        return settle_residuals(self._core, self._sparse)

    def _reduce_gradients(self, finite: bool, sends_all: bool) -> bool:
        """Of what is sent whole in this step. Returns whether it is finite as far as is
        known here."""
        buckets = self._whole + (self._sparse if sends_all else [])
        for bucket in buckets:
            bucket.take_gradients()
            if not finite:
                bucket.flat[:1] = math.nan  # so that all ranks know it before their optimizers step
            last = sends_all and bucket is buckets[-1]
            bucket.ticket = self._core.reduce(bucket.slot, bucket.flat, last, whole=True)
        for bucket in buckets:
            bucket.wait()
            finite &= bucket.is_finite()
        for bucket in buckets:
            bucket.give_gradients()
        return finite

    def _take_changes(
        self, bucket: Bucket, optimizer: torch.optim.Optimizer, finite: bool
    ) -> None:
        """Restores the agreed weights, and puts the optimizer's change into `flat`."""
        for parameter, place in bucket.places():
            change = place - parameter
            parameter.copy_(place)
            gain = gain_of(self._gain, optimizer.state.get(parameter, {}), self._core.size)
            torch.mul(change, gain, out=place)
        if not finite:
            bucket.flat[:1] = math.nan

    def _mask(
        self, bucket: Bucket, positions: torch.Tensor, optimizer: torch.optim.Optimizer
    ) -> None:
        # A moment that lasts longer than coordinates wait is still valid.
        if positions.numel() == 0 or positions.numel() * _LASTS >= bucket.flat.numel():
            return
        starts = torch.tensor([offset for _, offset in bucket.slices] + [bucket.flat.numel()])
        cuts = torch.searchsorted(positions, starts).tolist()
        for (parameter, offset), low, high in zip(bucket.slices, cuts, cuts[1:], strict=False):
            state = optimizer.state.get(parameter, {})
            for name in self._first_moments:
                moment = state.get(name)
                if isinstance(moment, torch.Tensor) and moment.shape == parameter.shape:
                    _erase(moment, positions[low:high] - offset)

    def _compare_weights(self) -> None:
        rank = rank_with_other_weights(self._group, _held(self._whole + self._sparse))
        if rank is not None:
            raise _core.DisagreementError(
                f"rank {rank} has other weights than rank 0 after {self._steps} steps. The "
                "optimizer must move a parameter that is sent whole, a bias or norm, by its "
                "own gradient alone; for one that does not, as one with a norm of all "
                'gradients, say rules=["*=0.01"]. With broadcast=False the ranks must have '
                "the same weights to begin with."
            )


class _Step(OwnStep):
    """One step whose change is exchanged."""

    def __init__(self, optimizer: torch.optim.Optimizer, finite: bool, sends_all: bool) -> None:
        super().__init__(optimizer, finite, takes_decay=not sends_all)
        self.sends_all = sends_all
        self._whole: list[tuple[torch.nn.Parameter, torch.Tensor]] = []

    def keep_weights(self, whole: list[Bucket], sparse: list[Bucket]) -> None:
        for bucket in sparse:
            bucket.take_weights()
        self._whole = [(p, p.detach().clone()) for bucket in whole for p, _ in bucket.slices]
        if self.finite:
            self.decay(_held(whole))

    def return_whole(self) -> None:
        for parameter, weights in self._whole:
            parameter.copy_(weights)

    def undo(self, sparse: list[Bucket]) -> None:
        """Undoes a step for which finish() was not called."""
        if not self.sends_all:
            self.return_whole()
            for bucket in sparse:
                bucket.give_weights()
        self.give_back()


def _held(buckets: list[Bucket]) -> list[torch.nn.Parameter]:
    return [p for bucket in buckets for p, _ in bucket.slices]


def _wait(bucket: Bucket) -> torch.Tensor:
    """Returns where this rank's residual was settled."""
    ticket = bucket.ticket
    bucket.wait()
    assert ticket is not None
    return ticket.settled()


def _erase(moment: torch.Tensor, positions: torch.Tensor) -> None:
    flat = moment.reshape(-1)  # a copy, where the memory is in another order
    flat.index_fill_(0, positions.to(flat.device), 0)
    if flat.data_ptr() != moment.data_ptr():
        moment.copy_(flat.view(moment.shape))
