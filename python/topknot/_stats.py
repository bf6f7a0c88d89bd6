# SPDX-License-Identifier: Apache-2.0
"""What an exchange has cost so far."""

from typing import Any

from topknot import _core
from topknot._session import session_of


def stats(owner: Any) -> dict[str, Any]:
    """The totals so far on this rank.

        print(topknot.stats(model)["sent_share"])

    A dictionary of

    steps                       of the optimizer, in rounds that have ended
    exchanges, not_finite       exchanges, and those that were not finite and not applied
    skipped_steps               local steps of this rank whose gradient was not finite
    local_steps                 from one exchange to the next, as it was set or decided
    asked_density, values       of one exchange, in the same way; how values travel
    wanted, agreed              coordinates that were asked for and agreed on, in all exchanges
    density                     those agreed on, of all there were
    sent_bytes, sent_messages   by this rank, in all; bytes for means of second moments, too
    dense_bytes                 what a ring allreduce of f32 on every step would have sent
    sent_share                  sent_bytes, as a share of dense_bytes
    seconds                     of the communication thread's work; of these
    select_seconds              in selecting, and
    wait_seconds                in waiting for the network and other ranks
    buckets                     a list: steps, not_finite and wanted to seconds of each bucket, its
                                dense_bytes, its size in coordinates and the names of its
                                parameters

    Waits until what is under way is done.
    """
    session = session_of(owner)
    core, rounds = session.core, session.rounds
    removed, *slots = core.totals()
    total = dict(removed)
    for slot in slots:
        for key, value in slot.items():
            if key not in ("parameters", "steps"):
                total[key] += value
    total["steps"] = session.steps()
    total["sent_bytes"] += 0 if rounds is None else rounds.squares_bytes
    total["exchanges"] = core.step()
    total["not_finite"] = core.nonfinite_steps()
    for entry in [total, *slots]:
        coordinates = entry.pop("coordinates")
        entry["density"] = entry["agreed"] / max(coordinates, 1)
        in_dense = coordinates if rounds is None else entry["size"] * rounds.steps
        entry["dense_bytes"] = 8 * in_dense * (core.size - 1) // core.size
    del total["parameters"], total["size"]
    split = session.options.split()
    return total | {
        "skipped_steps": 0 if rounds is None else rounds.skipped_steps,
        "local_steps": split.local_steps,
        "asked_density": split.density,
        "values": session.options.values(),
        "sent_share": total["sent_bytes"] / max(total["dense_bytes"], 1),
        "buckets": slots,
    }


def scalars(owner: Any, prefix: str = "topknot/") -> dict[str, float]:
    """The numbers of stats(), under names for a logger; those by bucket are left out.

        wandb.log(topknot.scalars(optimizer), step=step)
    """
    return {
        prefix + key: float(value)
        for key, value in stats(owner).items()
        if isinstance(value, (int, float))
    }


def log_stats(to: Any, owner: Any, step: int) -> None:
    """Writes the numbers of stats() to a logger: a SummaryWriter of TensorBoard, a run of W&B,
    or a logger of Lightning.

        topknot.log_stats(torch.utils.tensorboard.SummaryWriter(), model, step)
    """
    numbers = scalars(owner)
    if hasattr(to, "add_scalar"):
        for name, value in numbers.items():
            to.add_scalar(name, value, step)
    elif hasattr(to, "log_metrics"):
        to.log_metrics(numbers, step)
    elif hasattr(to, "log"):
        to.log(numbers, step=step)
    else:
        raise _core.ConfigError(
            f"A {type(to).__name__} has none of add_scalar, log_metrics and log: hand in a "
            "SummaryWriter, a W&B run or a logger of Lightning, or use topknot.scalars()."
        )
