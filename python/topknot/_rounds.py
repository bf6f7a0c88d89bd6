# SPDX-License-Identifier: Apache-2.0
"""Exchange of updates in rounds: every rank takes several steps alone, and then the ranks agree
on the change that they have made.

    first step   the weights, which are the same on all ranks, are kept
    each step    the optimizer's own on this rank's weights and gradients; no message
    exchange     behind the last: the weights that were kept - the weights joins the residual
                 and is reduced; the weights become those that were kept, less the agreed mean,
                 or less what the outer optimizer makes of it (_outer.py)

Without an outer optimizer the ranks agree on the second moments of their optimizers, row by row
(_squares.py).

The weights that are kept lie in the buckets' own memory, until the change takes their place.
What is sent whole, as biases and norms are, takes part in the same way.

The ranks must count alike, and a GradScaler that skips a step does not call optimizer.step().
So synchronize() counts a step, too, and the step() behind it does not again. The last step of
a round, behind which all ranks exchange, is taken by all of them or by none.
"""

from typing import Any

import torch

from topknot import _core
from topknot._buckets import Bucket, NamedParameters, make_buckets, settle_residuals
from topknot._outer import Outer
from topknot._own_step import (
    Gain,
    OwnStep,
    clip_gradients,
    gain_of,
    gradients_are_finite,
    parameters_of,
    rank_with_other_weights,
    refuse_unknown,
    spoil_unless_finite,
)
from topknot._session import Session
from topknot._squares import agree_on_squares

# They have a second moment, and move by the rate times what does not depend on it.
_WITH_SQUARES = (
    torch.optim.Adadelta,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
)


class Rounds:
    def __init__(
        self,
        session: Session,
        parameters: NamedParameters,
        bucket_bytes: int,
        *,
        clip: float,
        gain: Gain,
        outer: Outer | None = None,
    ) -> None:
        self._core = session.core
        self._group = session.group
        self._parameters = parameters
        self._known = {p for _, p in parameters}
        self._outer = outer or Outer(1, 0)
        self._averages_squares = outer is None
        self._buckets = make_buckets(self._core, parameters, bucket_bytes)
        self._length = session.options.split().local_steps
        self._clip = clip
        self._gain = gain
        self._gains: dict[torch.nn.Parameter, float] = {}  # known behind a parameter's first step
        self._taken = 0  # steps of the round under way
        self._counted = False  # by synchronize(), for the step() behind it
        self._step: _LocalStep | None = None  # the one under way
        self._exchanges = 0
        self.earlier_steps = 0  # of the training that was resumed, less those of before that
        self.steps = 0  # of all rounds that have ended
        self.skipped_steps = 0  # of this rank, whose gradients were not finite
        self.squares_bytes = 0  # that this rank has sent for means of second moments

    @property
    def under_way(self) -> bool:
        """Whether the ranks have different weights."""
        return self._taken > 0

    @torch.no_grad()
    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        self._finish_raised(optimizer)
        refuse_unknown(optimizer, self._known)
        if not self._counted:
            self._count()
        self._counted = False
        clip_gradients(optimizer, self._clip, self._core.size)
        finite = gradients_are_finite(optimizer)
        self.skipped_steps += 0 if finite else 1
        self._step = _LocalStep(optimizer, finite, self._rate_gain(optimizer), self._gains)

    @torch.no_grad()
    def finish(self, optimizer: torch.optim.Optimizer) -> None:
        step, self._step = self._step, None
        assert step is not None
        step.give_back()
        for parameter, before in step.weights:
            gain = gain_of(self._gain, optimizer.state.get(parameter, {}), self._core.size)
            self._gains[parameter] = gain
            if gain != 1:
                torch.lerp(before, parameter, gain, out=parameter)
        self._exchange_if_due(optimizer)

    @torch.no_grad()
    def synchronize(self, optimizer: torch.optim.Optimizer) -> None:
        self._finish_raised(optimizer)
        self._counted = self._taken + 1 < self._length
        if self._counted:
            self._count()
        else:
            spoil_unless_finite(optimizer, self._group)

    @torch.no_grad()
    def end(self, optimizer: torch.optim.Optimizer) -> None:
        """Ends the round now, if one is under way."""
        self._finish_raised(optimizer)
        if self._taken > 0:
            self._exchange(optimizer)

    def forget(self) -> None:
        """Drops the round under way; the weights stay as they are. All ranks call it."""
        self._drop_round()

    def resume(self, steps: int, outer: dict[str, torch.Tensor]) -> None:
        """Goes on behind `steps` of another optimizer, between rounds."""
        self._outer.load(self._parameters, outer)
        self.earlier_steps = steps - self.steps

    def outer_state(self) -> dict[str, torch.Tensor]:
        """The same on all ranks."""
        return self._outer.save(self._parameters)

    def _drop_round(self) -> None:
        if self._step is not None:
            self._step.give_back()
        self._step = None
        self._taken = 0
        self._counted = False

    @torch.no_grad()
    def settle(self) -> bool:
        """Between rounds. Returns False, and leaves everything as it was, where a sum is not
        finite."""
        if not self._outer.is_plain:
            raise _core.ConfigError(
                "topknot.settle() moves the weights by the mean of the residuals as it is, and "
                "here an outer optimizer moves them: settle with outer_lr=1, outer_momentum=0."
            )
        return settle_residuals(self._core, self._buckets)

    def _rate_gain(self, optimizer: torch.optim.Optimizer) -> float | None:
        """The factor of the rate that has the effect of the gain; None where there is none."""
        if type(optimizer) in _WITH_SQUARES:
            return gain_of(self._gain, {"exp_avg_sq": None}, self._core.size)
        return gain_of(self._gain, {}, 1) if type(optimizer) is torch.optim.SGD else None

    def _count(self) -> None:
        if self._taken == 0:
            self._keep_weights()
        self._taken += 1

    def _keep_weights(self) -> None:
        for bucket in self._buckets:
            bucket.take_weights()

    def _finish_raised(self, optimizer: torch.optim.Optimizer) -> None:
        """Finishes a step in which the optimizer has raised an exception. It counts, for other
        ranks may not have raised any; what it has changed is part of this rank's change."""
        step, self._step = self._step, None
        if step is not None:
            step.give_back()
            self._exchange_if_due(optimizer)

    def _exchange_if_due(self, optimizer: torch.optim.Optimizer) -> None:
        if self._taken >= self._length:
            self._exchange(optimizer)

    def _exchange(self, optimizer: torch.optim.Optimizer) -> None:
        self.steps += self._taken
        self._drop_round()
        for bucket in self._buckets:
            _take_change(bucket)
        self._hand_over()
        for bucket in self._buckets:
            bucket.wait()
        if all(bucket.is_finite() for bucket in self._buckets):
            for bucket in self._buckets:
                self._outer.turn_into_move(bucket)
                bucket.subtract_from_weights()
        else:
            clear_state(optimizer)
        if self._averages_squares:
            self.squares_bytes += agree_on_squares(
                optimizer, self._buckets, self._group, self._core.step(), self._length
            )
        self._count_exchange([p for bucket in self._buckets for p, _ in bucket.slices])

    def _hand_over(self) -> None:
        for bucket in self._buckets:
            last = bucket is self._buckets[-1]
            bucket.ticket = self._core.reduce(bucket.slot, bucket.flat, last)

    def _count_exchange(self, agreed: list[torch.Tensor]) -> None:
        """Behind exchanges 1, 2, 4, 8, ... the ranks compare what they have agreed on."""
        self._exchanges += 1
        if self._exchanges & (self._exchanges - 1) != 0:
            return
        rank = rank_with_other_weights(self._group, agreed)
        if rank is not None:
            raise _core.DisagreementError(
                f"rank {rank} has other weights than rank 0 after {self._exchanges} exchanges. "
                "With broadcast=False the ranks must have the same weights to begin with, and "
                "between rounds nobody else may change them on one rank alone."
            )


class _LocalStep(OwnStep):
    """One step of this rank alone. Decoupled decay comes first, as in the optimizers that have
    it, so that the gain does not multiply it."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        finite: bool,
        rate_gain: float | None,
        gains: dict[torch.nn.Parameter, float],
    ) -> None:
        super().__init__(optimizer, finite)
        moving = [p for p in parameters_of(optimizer) if p.grad is not None]
        self.decay(moving)
        # Those before the step, of the parameters that may have a gain.
        self.weights: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        # Groups, their rates, and the rates with the gain.
        self._rates: list[tuple[dict[str, Any], Any, Any]] = []
        if rate_gain is None:
            self.weights = [(p, p.detach().clone()) for p in moving if gains.get(p) != 1]
        elif rate_gain != 1:
            for group in optimizer.param_groups:
                rate, raised = group["lr"], group["lr"] * rate_gain
                self._rates.append((group, rate, raised))
                group["lr"] = raised

    def give_back(self) -> None:
        super().give_back()
        for group, rate, raised in self._rates:
            if group["lr"] == raised:  # nobody has set another since
                group["lr"] = rate


def _take_change(bucket: Bucket) -> None:
    """Restores the weights of the round's start, and puts the change since into `flat`."""
    for parameter, place in bucket.places():
        change = place - parameter
        parameter.copy_(place)
        place.copy_(change)


def clear_state(optimizer: torch.optim.Optimizer) -> None:
    """It belongs to weights that are no more, and what made them overflow may be in it. Most
    optimizers begin with zeros; those that do not make their state anew."""
    if type(optimizer) in (torch.optim.NAdam, torch.optim.Rprop, torch.optim.ASGD):
        optimizer.state.clear()
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.zero_()
