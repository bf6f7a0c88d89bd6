# SPDX-License-Identifier: Apache-2.0
"""Data parallelism without DDP, by the optimizer: its updates are exchanged, or the gradients,
as autograd makes them."""

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from topknot import _core
from topknot._agreement import shapes
from topknot._auto import decided, is_auto
from topknot._backward import Backward
from topknot._buckets import NamedParameters
from topknot._options import Options, make_options
from topknot._own_step import Gain
from topknot._rounds import Rounds
from topknot._session import Session, has_session, open_session, remember, session_of
from topknot._updates import FIRST_MOMENTS, Updates

AnyOptimizer = TypeVar("AnyOptimizer", bound=torch.optim.Optimizer)


def DistributedOptimizer(  # noqa: N802, the name that users of others know
    optimizer: AnyOptimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
    scheme: str | None = None,
    density: float | None = None,
    *,
    budget: float | None = None,
    local_steps: int | None = None,
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

        optimizer = topknot.DistributedOptimizer(optimizer, model.named_parameters())

    Returns the same optimizer, so schedulers and the rest work on. With nothing set the ranks
    exchange on every 4th step, a quarter of the coordinates in 2 bits each. In between each
    rank steps alone, and THE RANKS HAVE DIFFERENT WEIGHTS: call topknot.end_round(optimizer)
    on all ranks before evaluation, a checkpoint and the end of training. Behind an exchange
    all ranks have the same weights, bit for bit.

    scheme       as for topknot.attach(); "auto" is knot, as the options below have it, or dense on
                 every step
    budget       bytes sent, as a share of those of dense training: decides local_steps,
                 density and the bits of a value; 1/64 where none of these is set
    density      share of the coordinates in one exchange, in (0, 1]. Alone: an exchange on
                 every step, in f32. A scheme of others has 0.01 unless something is set.
    local_steps  steps from one exchange to the next. Alone: of a quarter, in 2 bits
    exchange     "updates": the optimizer takes its steps on this rank's own gradients. The
                 change of the weights joins the residual, the ranks agree on the mean of
                 about `density` of it, and that is subtracted from the weights they had. Any
                 optimizer will do. The exchange is in optimizer.step().
                 "gradients": the mean of the gradients is agreed on, while backward goes on,
                 and the optimizer steps on it: sparse gradients, which momentum and Adam take
                 badly.
                 What is sent whole, as biases and norms are, and all of it at density 1, has
                 its gradients reduced with either, unless there are local steps.
    first_moments
                 names in optimizer.state, by parameter: with updates on every step they
                 become zero where this rank's residual was settled
    gain         with updates each change is multiplied by it; "auto" is the square root of the
                 number of ranks where the optimizer has a second moment, for that of one rank
                 holds that much more noise than that of the mean, and else 1. Decoupled
                 weight decay is not multiplied.
    clip         with updates the longest gradient (L2): each rank's own is clipped at
                 clip * sqrt(ranks) before its step

    Parameters are put together into buckets of about `bucket_mb`, last parameters first.
    `broadcast` sends rank 0's parameters to all ranks first. With a GradScaler call
    topknot.synchronize(optimizer) after backward; with gradients to clip them, too. With
    gradients say `backward_passes_per_step`; with updates gradients may be accumulated as
    one likes. The other options are those of topknot.attach().
    """
    parameters = trained(named_parameters)
    made = make_options(
        "DistributedOptimizer", scheme=scheme, density=density, budget=budget,
        local_steps=local_steps, exchange=exchange, **options,
    )  # fmt: skip
    bucket_bytes = int(bucket_mb * 2**20)
    auto = is_auto(made)
    made = decided(made, process_group, parameters, bucket_bytes)
    moments = tuple(first_moments)
    also = {
        "backward_passes_per_step": str(backward_passes_per_step),
        "bucket_mb": str(bucket_mb),
        "first_moments": " ".join(moments),
        "gain": str(gain),
    }
    session = open_for(optimizer, parameters, made, also, process_group, broadcast)
    session.auto = auto
    _check_gain(gain)
    own = of_optimizer(optimizer, parameters)
    updates = _exchange_of_updates(session, own, bucket_bytes, gain, moments)
    if updates is not None:
        exchange_behind_steps(optimizer, updates)
    else:
        passes = backward_passes_per_step
        backward = Backward(session, optimizer, parameters, bucket_bytes, passes)
        optimizer.register_step_pre_hook(_closure_first(lambda _: backward.synchronize()))
        _backwards[optimizer] = backward
    remember(optimizer, session)
    return optimizer


def trained(named_parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> NamedParameters:
    return [(name, p) for name, p in named_parameters if p.requires_grad]


def open_for(
    optimizer: torch.optim.Optimizer,
    parameters: NamedParameters,
    made: Options,
    also: Mapping[str, str],
    process_group: dist.ProcessGroup | None,
    broadcast: bool,
) -> Session:
    """A session for an optimizer that has none yet, with rank 0's parameters on all ranks."""
    if has_session(optimizer):
        raise _core.ConfigError("This optimizer is distributed by topknot already.")
    fields = {**also, "broadcast": str(broadcast), **shapes(parameters)}
    coordinates = sum(p.numel() for _, p in parameters)
    session = open_session(process_group, made, coordinates, fields)
    if broadcast:
        source = dist.get_process_group_ranks(process_group or dist.group.WORLD)[0]
        for _, parameter in parameters:
            dist.broadcast(parameter.data, source, group=process_group)
    return session


def exchange_behind_steps(optimizer: torch.optim.Optimizer, updates: Updates | Rounds) -> None:
    optimizer.register_step_pre_hook(_closure_first(updates.begin))
    optimizer.register_step_post_hook(lambda this, *_: updates.finish(this))
    _updates[optimizer] = updates


def _exchange_of_updates(
    session: Session,
    parameters: NamedParameters,
    bucket_bytes: int,
    gain: Gain,
    first_moments: tuple[str, ...],
) -> Updates | Rounds | None:
    """None where gradients are exchanged: also where all of them are, on every step."""
    made = session.options
    if made.exchange != "updates":
        return None
    if made.split().local_steps > 1:
        session.rounds = Rounds(session, parameters, bucket_bytes, clip=made.clip, gain=gain)
        return session.rounds
    is_whole = session.core.sent_whole([(name, list(p.shape)) for name, p in parameters])
    if made.clip == 0 and all(is_whole):
        return None
    return Updates(
        session, parameters, is_whole, bucket_bytes,
        clip=made.clip, gain=gain, first_moments=first_moments,
    )  # fmt: skip


def _check_gain(gain: Gain) -> None:
    if gain != "auto" and (isinstance(gain, str) or not (gain > 0 and math.isfinite(gain))):
        raise _core.ConfigError(f'gain={gain!r} is neither "auto" nor a number above 0.')


def of_optimizer(
    optimizer: torch.optim.Optimizer, parameters: NamedParameters
) -> NamedParameters:
    held = {p for group in optimizer.param_groups for p in group["params"]}
    return [(name, p) for name, p in parameters if p in held]


def _closure_first(begin):
    """A hook before step() that runs the closure, if one is given, and then `begin`: the
    gradients are there when these are exchanged. The optimizer gets the loss."""

    def hook(
        optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]] | None:
        place = next((at for at, one in enumerate(args) if at > 0 and callable(one)), None)
        closure = kwargs.get("closure") if place is None else args[place]
        if closure is None:
            begin(optimizer)
            return None
        if isinstance(optimizer, torch.optim.LBFGS):
            raise _core.ConfigError(
                "LBFGS runs its closure several times in a step, and topknot exchanges once: "
                "take an optimizer that looks at one gradient a step."
            )
        with torch.enable_grad():
            loss = closure()
        begin(optimizer)
        if place is None:
            return args, {**kwargs, "closure": _once(loss)}
        return (*args[:place], _once(loss), *args[place + 1 :]), kwargs

    return hook


def _once(loss: Any) -> Callable[[], Any]:
    left = [loss]

    def closure() -> Any:
        if not left:
            raise _core.ConfigError(
                "The optimizer runs its closure several times in a step, and topknot exchanges "
                "once: take one that looks at one gradient a step."
            )
        return left.pop()

    return closure


def end_round(optimizer: torch.optim.Optimizer) -> None:
    """Ends a round of local steps now, by the exchange that is due at its end: all ranks then
    have the same weights, bit for bit.

        topknot.end_round(optimizer)
        torch.save(model.state_dict(), "model.pt")

    For evaluation, checkpoints and the end of training. All ranks call it, after the same
    number of steps. Between rounds, and without local steps, it does nothing.
    """
    rounds = session_of(optimizer).rounds
    if rounds is not None:
        rounds.end(optimizer)


def settle(optimizer: torch.optim.Optimizer) -> None:
    """Ends the round under way, and settles all residuals: one dense exchange, whose mean is
    subtracted from the weights.

        topknot.settle(optimizer)                 # behind the last step

    For the end of training, when the learning rate has come down: residuals hold the changes
    of about 1 / density exchanges, and at the full rate they are too large a step. All ranks
    call it, with what DistributedOptimizer(exchange="updates") has returned. All buckets are
    settled, or none, where a sum is not finite. Without residuals, as at density 1, nothing is.
    """
    if session_of(optimizer).options.exchange != "updates":
        raise _core.ConfigError(
            "Residuals of gradients cannot be settled, for they are no change of the weights: "
            'topknot.settle() is for DistributedOptimizer(exchange="updates").'
        )
    end_round(optimizer)
    if optimizer in _updates and not _updates[optimizer].settle():
        warnings.warn(
            "The sum of the residuals is not finite in some bucket: nothing was settled.",
            RuntimeWarning,
            stacklevel=2,
        )


def synchronize(optimizer: torch.optim.Optimizer) -> None:
    """Makes gradients ready to be looked at, between backward and optimizer.step().

        scaler.scale(loss).backward()
        topknot.synchronize(optimizer)
        scaler.step(optimizer)

    With gradients: waits until they are reduced; optimizer.step() then does not.
    With updates: makes all gradients NaN on all ranks where one is not finite on any, so that
    all of them skip the step. With local steps it does so before the last of a round; before
    the others it sends nothing, and each rank may skip its own step."""
    if optimizer in _updates:
        _updates[optimizer].synchronize(optimizer)
    elif optimizer in _backwards:
        _backwards[optimizer].synchronize()
    else:
        raise _core.ConfigError(
            "topknot.synchronize() takes what DistributedOptimizer() or LocalSteps() has "
            "returned."
        )


_backwards: "weakref.WeakKeyDictionary[torch.optim.Optimizer, Backward]" = (
    weakref.WeakKeyDictionary()
)
_updates: "weakref.WeakKeyDictionary[torch.optim.Optimizer, Updates | Rounds]" = (
    weakref.WeakKeyDictionary()
)
