# SPDX-License-Identifier: Apache-2.0
"""Sessions: what attach(), DistributedOptimizer() and SparseAllreduce() have in common.

A session has a Gloo group of its own with the ranks of the user's group, so that nothing
here is ordered against what others send, and an NCCL job can use it, too.
"""

import atexit
import dataclasses
import socket
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from topknot import _core, _processor
from topknot._agreement import require_equal
from topknot._device_memory import DeviceMemory
from topknot._device_queue import StreamQueue
from topknot._gather import gather_json, gather_state
from topknot._names import without_wrapper
from topknot._options import Options
from topknot._rehearsal import bucket_order, rehearse
from topknot._two_levels import (
    NodeGroup,
    TwoLevels,
    enter_node,
    find_nodes,
    is_by_coordinate,
    new_group,
)

if TYPE_CHECKING:
    from topknot._rounds import Rounds

_VERSION = 1  # of the state dictionaries
stand_in: Any = None  # of the tests, for a device that is not here; new sessions use it


@dataclasses.dataclass(eq=False)
class Session:
    core: _core.Session
    group: dist.ProcessGroup  # of all ranks, over Gloo
    options: Options
    rounds: "Rounds | None" = None  # where there are local steps
    ddp: "weakref.ref[DistributedDataParallel] | None" = None  # of attach()
    auto: bool = False  # whether the scheme was decided by measurement
    levels: TwoLevels | None = None  # where there are nodes; `core` is between them then

    @property
    def rank(self) -> int:
        return self.group.rank()

    @property
    def size(self) -> int:
        return self.group.size()

    def steps(self) -> int:
        """Of the optimizer, but for those of a round under way."""
        rounds = self.rounds
        return self.core.step() if rounds is None else rounds.earlier_steps + rounds.steps


_sessions: "weakref.WeakKeyDictionary[Any, Session]" = weakref.WeakKeyDictionary()
_open: "weakref.WeakSet[_core.Session]" = weakref.WeakSet()


def open_session(
    group: dist.ProcessGroup | None,
    options: Options,
    coordinates: int = 0,
    also: Mapping[str, str] = {},
    node_group: NodeGroup | None = None,
    sizes: Mapping[str, int] = {},
) -> Session:
    """Opens a session among the ranks of `group`, all of which must call this with the same
    options and the same in `also`. `coordinates`: of the whole gradient; 0: what is reduced at
    once is whole. With `node_group` it is between nodes, of parameters of these sizes."""
    if not dist.is_initialized():
        raise _core.ConfigError(
            "torch.distributed is not initialised: call dist.init_process_group() first."
        )
    _processor.explain_illegal_instructions()
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    own = new_group(ranks, "gloo", options.timeout, "topknot")
    # What cannot be is refused after that: on all ranks, then, and none is left waiting.
    hosts = _agree(own, options, also)
    options.check()
    link, levels = own, None
    if node_group is not None:
        nodes = find_nodes(node_group, hosts, ranks, own)
        if len(nodes) < len(ranks):
            levels, link = enter_node(nodes, dist.get_backend(group), options.timeout, sizes)
            options = _between(options, levels)
            hosts = list(range(len(nodes)))
    core = _core.Session(
        options.engine(), coordinates, link.group_name, hosts, options.timeout, options.flight
    )
    _open.add(core)
    _select_on_devices(core, options, levels)
    return Session(core, own, options, levels=levels)


def _select_on_devices(
    core: _core.Session, options: Options, levels: TwoLevels | None
) -> None:
    """Has slots of tensors on a device select there, where that can be."""
    why = _core.why_on_the_host(options.engine())
    if levels is not None:
        why = "With node_group the sums of a node are selected on the host."
    if why and options.select_on == "device":
        raise _core.ConfigError(f'{why} Take select_on="host".')
    if why or options.select_on == "host":
        return

    instead = stand_in

    def make(size: int, kind: str, parameters: str, device: torch.device) -> DeviceMemory:
        queue = StreamQueue(device) if instead is None else instead.queue
        return DeviceMemory(queue, size, kind, parameters)

    core.select_on_devices(make, instead)


def _between(options: Options, levels: TwoLevels) -> Options:
    """Of the exchange between nodes, whose vectors are sums over a node's ranks."""
    if levels.nodes == 1:  # nothing is sent, so nothing is left out
        return dataclasses.replace(options, density=1.0, schedule="constant", rules=())
    return dataclasses.replace(options, clip=options.clip * levels.ranks_per_node)


def raise_failures() -> None:
    """Raises the error of a session that has failed, if one has."""
    for core in list(_open):
        core.raise_failure()


def _agree(
    group: dist.ProcessGroup, options: Options, also: Mapping[str, str]
) -> list[int]:
    """Checks that all ranks ask for the same; returns by rank which host it is on."""
    fields = options.texts() | {
        "version of the wire format": str(_core.WIRE_VERSION),
        "torch": torch.__version__,
        **also,
    }
    said = gather_json([socket.gethostname(), fields], group)
    require_equal([theirs for _, theirs in said])
    names = [host for host, _ in said]
    return [names.index(host) for host in names]


def remember(owner: Any, session: Session) -> None:
    _sessions[owner] = session


def has_session(owner: Any) -> bool:
    return owner in _sessions


def session_of(owner: Any) -> Session:
    if isinstance(owner, Session):
        return owner
    if isinstance(owner, torch.nn.Module):
        owner = without_wrapper(owner)
    try:
        return _sessions[owner]
    except (KeyError, TypeError):
        raise _core.ConfigError(
            f"This {type(owner).__name__} has nothing to do with topknot yet: hand in what "
            "was given to topknot.attach(), DistributedOptimizer() or LocalSteps(), or is a "
            "SparseAllreduce."
        ) from None


def hand_over_rate(core: _core.Session, optimizer: torch.optim.Optimizer | None) -> None:
    """Hands the learning rate of the next step to the engine: that of the first group, for
    memories use only the ratio of two rates."""
    if optimizer is not None:
        core.set_learning_rate(float(optimizer.param_groups[0]["lr"]))


def refuse_rate_inside(options: Options) -> None:
    """Refuses residual:lr=inside, where the learning rate is not known."""
    if "lr=inside" in options.memory:
        raise _core.ConfigError(
            f"memory={options.memory!r} needs the learning rate, which is not known here: use "
            "topknot.attach(model, optimizer=optimizer) or topknot.DistributedOptimizer()."
        )


# A thread that is still in an exchange, because the script failed there, is left to end with
# the process: waiting for it could take until the deadline. One that only frees a tensor is
# waited for: it needs Python's lock, and Python ends a process whose thread asks for it too
# late.
@atexit.register
def _close_all() -> None:
    for core in list(_open):
        end = time.monotonic() + 1
        while not core.idle() and time.monotonic() < end:
            time.sleep(0.01)
        if core.idle():
            core.close()
        else:
            core.abandon()


def schemes() -> dict[str, str]:
    """What `scheme=` may be, with a line on each.

        print(*topknot.schemes())
    """
    return {entry["name"]: entry["summary"] for entry in _core.catalog()}


def state_dict(owner: Any) -> dict[str, Any]:
    """What this rank keeps from step to step: above all its residuals. For torch.save().

        torch.save(topknot.state_dict(model), f"topknot-{rank}.pt")

    Every rank has its own: save them all, or use gather_state_dict(). Refused in the middle of
    a round, where the ranks have different weights: call end_round() before.
    """
    session = session_of(owner)
    if session.rounds is not None and session.rounds.under_way:
        raise _core.ConfigError(
            "This is the middle of a round, where the ranks have different weights: call "
            "topknot.end_round(optimizer) on all ranks before the state is saved."
        )
    values = session.core.save()
    if session.levels is not None:
        values = session.levels.whole(values)
    return {
        "topknot": _VERSION,
        "rank": session.rank,
        "world_size": session.size,
        "ranks_per_node": _ranks_per_node(session),
        "scheme": session.options.scheme,
        "whole": list(session.options.whole),
        "exchange": session.options.exchange,
        "step": session.core.step(),
        "optimizer_steps": session.steps(),
        "order": bucket_order(session.core) if session.ddp is not None else [],
        "values": values,
        "outer": {} if session.rounds is None else session.rounds.outer_state(),
    }


def gather_state_dict(owner: Any, dst: int = 0) -> dict[str, Any] | None:
    """The state of all ranks, on rank `dst` of the group; None elsewhere. All ranks call it.

        state = topknot.gather_state_dict(model)
        if rank == 0:
            torch.save(state, "topknot.pt")

    Takes, on that rank, as much memory as the gradients of all ranks.
    """
    session = session_of(owner)
    mine = state_dict(owner)
    outer = mine.pop("outer")  # the same on all ranks
    ranks = gather_state(mine, dst, session.group)
    if ranks is None:
        return None
    for one in ranks:
        one["outer"] = outer
    return {"topknot": _VERSION, "world_size": len(ranks), "ranks": ranks}


def load_state_dict(owner: Any, state: dict[str, Any] | Iterable[dict[str, Any]]) -> None:
    """Restores `state`, behind attach(), DistributedOptimizer() or LocalSteps().

        topknot.load_state_dict(model, torch.load(f"topknot-{rank}.pt"))

    It is what state_dict() gave on this rank, or what it gave on all ranks, as a list or from
    gather_state_dict(). All ranks call it; after attach(), before the first backward.

    With the state of all ranks the number of ranks may be another: of P ranks before and Q
    now, rank j gets Q/P times the residuals of all ranks w with w mod Q = j, so that the mean
    of the residuals stays the same. A round under way is dropped: load the model's weights, too.
    """
    session = session_of(owner)
    core = session.core
    states = _states(state)
    for one in states:
        before, now = one.get("exchange", "gradients"), session.options.exchange
        if before != now:
            raise _core.ConfigError(
                f"This state is of an exchange of {before}, and this is one of {now}: the "
                f"residuals are in other units. Take exchange={before!r}."
            )
        _refuse_another_decision(session, one)
    mine = _share(states, session)
    if session.rounds is not None:
        session.rounds.forget()
    ddp = None if session.ddp is None else session.ddp()
    if ddp is not None:
        rehearse(ddp, core, mine.get("order", []))
    values = mine["values"]
    if session.levels is not None:
        if mine.get("ranks_per_node") != session.levels.ranks_per_node:
            values = session.levels.sum_over_node(values)
        values = session.levels.pieces(values)
    core.load(values, mine["step"])
    if session.rounds is not None:
        session.rounds.resume(mine.get("optimizer_steps", mine["step"]), mine.get("outer", {}))


def _refuse_another_decision(session: Session, state: dict[str, Any]) -> None:
    before = state.get("scheme"), list(state.get("whole", []))
    now = session.options.scheme, list(session.options.whole)
    if session.auto and before != now:
        raise _core.ConfigError(
            f'scheme="auto" has taken {now[0]}, and this state is of a run with {before[0]}, whose '
            f"residuals are other ones. To continue it take scheme={before[0]!r}"
            + (f", whole={before[1]!r}." if before[1] else ".")
        )


def _states(state: Any) -> list[dict[str, Any]]:
    states = [state] if isinstance(state, dict) else list(state)
    if len(states) == 1 and "ranks" in states[0]:
        states = states[0]["ranks"]
    if not states:
        raise _core.ConfigError("Here is no state: hand in those of one rank or of all.")
    for one in states:
        if not isinstance(one, dict) or one.get("topknot") != _VERSION:
            raise _core.ConfigError(
                "This is not a state that topknot.state_dict() has made, or of another version."
            )
    return states


def _ranks_per_node(session: Session) -> int:
    return 1 if session.levels is None else session.levels.ranks_per_node


def _share(states: list[dict[str, Any]], session: Session) -> dict[str, Any]:
    """The state that this rank gets."""
    rank, size = session.rank, session.size
    by_rank = {one["rank"]: one for one in states}
    before = states[0]["world_size"]
    has_own = before == size and rank in by_rank
    if has_own and by_rank[rank].get("ranks_per_node", 1) == _ranks_per_node(session):
        return by_rank[rank]
    if len(by_rank) != before and not has_own:
        raise _core.ConfigError(
            f"Here are the states of ranks {sorted(by_rank)} of {before}; rank {rank} of {size} "
            "needs its own, or those of all ranks."
        )
    # As in store/fold.cc: thresholds and regions are found anew for another number of ranks.
    values = {
        key: value
        for key, value in by_rank[rank % before]["values"].items()
        if not is_by_coordinate(value) and ("/memory." in key or "/bucket." in key)
    }
    for source in range(rank, before, size):
        for key, value in by_rank[source]["values"].items():
            if is_by_coordinate(value):
                share = value * (size / before)
                values[key] = values[key] + share if key in values else share
    common = ("step", "optimizer_steps", "order", "outer")  # to all ranks
    first = min(by_rank.items())[1]
    return {"values": values, **{key: first[key] for key in common if key in first}}
