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
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core
from topknot._buckets import Bucket, NamedParameters, make_buckets
from topknot._session import Session

FIRST_MOMENTS = ("momentum_buffer", "exp_avg")  # what is masked unless told otherwise
_LASTS = 10  # steps, of a first moment with the usual factor of 0.9
_SECOND_MOMENTS = ("exp_avg_sq", "square_avg")

Gain = float | str


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
        self._refuse_unknown(optimizer)
        if self._clip > 0:
            limit = self._clip * math.sqrt(self._core.size)
            torch.nn.utils.clip_grad_norm_(_parameters(optimizer), limit)
        sends_all = not self._sparse or self._core.density(self._names) >= 1
        finite = self._reduce_gradients(_is_finite(optimizer), sends_all)
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
            step.decay(self._sparse)
            for bucket, positions in zip(self._sparse, settled, strict=True):
                _subtract(bucket)
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
        """Makes all gradients NaN on all ranks where one is not finite on any."""
        self._drop_unfinished()
        worst = torch.tensor([0.0 if _is_finite(optimizer) else 1.0])
        dist.all_reduce(worst, dist.ReduceOp.MAX, self._group)
        if worst.item() > 0:
            for gradient in _gradients(optimizer):
                gradient.fill_(math.nan)

    @torch.no_grad()
    def settle(self) -> bool:
        """Returns False, and leaves everything as it was, where a sum is not finite."""
        self._drop_unfinished()
        for bucket in self._sparse:
            bucket.ticket = self._core.reduce_residuals(bucket.slot, bucket.flat)
        self._core.end_settling()
        for bucket in self._sparse:
            bucket.wait()
        finite = all(bucket.is_finite() for bucket in self._sparse)
        if finite:
            for bucket in self._sparse:
                _subtract(bucket)
        return finite

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
            torch.mul(change, self._gain_of(optimizer.state.get(parameter, {})), out=place)
        if not finite:
            bucket.flat[:1] = math.nan

    def _gain_of(self, state: dict[str, Any]) -> float:
        if not isinstance(self._gain, str):
            return float(self._gain)
        has_squares = any(name in state for name in _SECOND_MOMENTS)
        return math.sqrt(self._core.size) if has_squares else 1.0

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

    def _refuse_unknown(self, optimizer: torch.optim.Optimizer) -> None:
        if any(p.requires_grad and p not in self._known for p in _parameters(optimizer)):
            raise _core.ConfigError(
                "The optimizer has a parameter that DistributedOptimizer() was not given by "
                "name, so its changes would not be exchanged: hand in all of its named_parameters."
            )

    def _compare_weights(self) -> None:
        mine = torch.tensor([_checksum(p) for b in self._whole + self._sparse for p, _ in b.slices])
        theirs = [torch.empty_like(mine) for _ in range(self._core.size)]
        dist.all_gather(theirs, mine, self._group)
        for rank, other in enumerate(theirs):
            if not torch.equal(other, theirs[0]):
                raise _core.DisagreementError(
                    f"rank {rank} has other weights than rank 0 after {self._steps} steps. The "
                    "optimizer must move a parameter that is sent whole, a bias or norm, by its "
                    "own gradient alone; for one that does not, as one with a norm of all "
                    'gradients, say rules=["*=0.01"]. With broadcast=False the ranks must have '
                    "the same weights to begin with."
                )


class _Step:
    """What is to be put back after one step of the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer, finite: bool, sends_all: bool) -> None:
        self.finite = finite
        self.sends_all = sends_all
        self._decays: list[tuple[dict[str, Any], Any]] = []  # groups, and what they decay by
        self._whole: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        self._hidden: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        if not finite:  # an optimizer passes over a parameter without gradient
            for parameter in _parameters(optimizer):
                if parameter.grad is not None:
                    self._hidden.append((parameter, parameter.grad))
                    parameter.grad = None
        if not sends_all:
            self._decays = [(g, g["weight_decay"]) for g in _decaying_groups(optimizer)]
            for group, _ in self._decays:
                group["weight_decay"] = 0.0

    def keep_weights(self, whole: list[Bucket], sparse: list[Bucket]) -> None:
        for bucket in sparse:
            for parameter, place in bucket.places():
                place.copy_(parameter)
        self._whole = [(p, p.detach().clone()) for bucket in whole for p, _ in bucket.slices]
        if self.finite:
            self.decay(whole)

    def decay(self, buckets: list[Bucket]) -> None:
        held = {p for bucket in buckets for p, _ in bucket.slices}
        for group, decay in self._decays:
            for parameter in group["params"]:
                if parameter in held:
                    parameter.mul_(1 - group["lr"] * decay)

    def return_whole(self) -> None:
        for parameter, weights in self._whole:
            parameter.copy_(weights)

    def give_back(self) -> None:
        for group, decay in self._decays:
            group["weight_decay"] = decay
        for parameter, gradient in self._hidden:
            parameter.grad = gradient

    def undo(self, sparse: list[Bucket]) -> None:
        """Undoes a step for which finish() was not called."""
        if not self.sends_all:
            self.return_whole()
            for bucket in sparse:
                for parameter, place in bucket.places():
                    parameter.copy_(place)
        self.give_back()


def _decaying_groups(optimizer: torch.optim.Optimizer) -> Iterator[dict[str, Any]]:
    """Those whose weight decay does not pass through the gradient."""
    names = ("AdamW", "Adafactor", "Muon")  # of which not every torch has all
    kinds = tuple(getattr(torch.optim, name) for name in names if hasattr(torch.optim, name))
    for group in optimizer.param_groups:
        decoupled = isinstance(optimizer, kinds) or group.get("decoupled_weight_decay", False)
        if decoupled and group.get("weight_decay", 0) != 0:
            yield group


def _wait(bucket: Bucket) -> torch.Tensor:
    """Returns where this rank's residual was settled."""
    ticket = bucket.ticket
    bucket.wait()
    assert ticket is not None
    return ticket.settled()


def _subtract(bucket: Bucket) -> None:
    for parameter, mean in bucket.places():
        parameter.sub_(mean)


def _erase(moment: torch.Tensor, positions: torch.Tensor) -> None:
    flat = moment.reshape(-1)  # a copy, where the memory is in another order
    flat.index_fill_(0, positions.to(flat.device), 0)
    if flat.data_ptr() != moment.data_ptr():
        moment.copy_(flat.view(moment.shape))


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for p in _parameters(optimizer) if p.grad is not None]


def _is_finite(optimizer: torch.optim.Optimizer) -> bool:
    largest = torch.nn.utils.get_total_norm(_gradients(optimizer), norm_type=math.inf)
    return bool(largest.isfinite())


def _checksum(parameter: torch.Tensor) -> int:
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = parameter.detach().contiguous().view(whole[parameter.element_size()])
    return int(bits.sum(dtype=torch.int64))
