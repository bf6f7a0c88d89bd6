# SPDX-License-Identifier: Apache-2.0
"""The plain operation on tensors, and what it is good for under FSDP."""

import itertools
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist

from topknot import _core
from topknot._session import Options, open_session, remember


class SparseAllreduce:
    """Replaces a tensor with the mean, over the ranks, of its coordinates that matter.

        reduce = topknot.SparseAllreduce(density=0.01)
        reduce(gradient)

    What was not sent is kept and joins the next call with the same `name`. All ranks make
    one, and call it, with the same arguments in the same order. The arguments are those of
    topknot.attach(); `process_group` is whose ranks take part, all by default.
    """

    def __init__(
        self,
        scheme: str = "knot",
        density: float = 0.01,
        *,
        memory: str | None = None,
        compressor: str | None = None,
        collective: str | None = None,
        schedule: str | None = None,
        steps_per_epoch: int | None = None,
        clip: float = 0.0,
        rules: Iterable[str] = (),
        timeout: float = 60.0,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        options = Options(
            scheme=scheme,
            density=float(density),
            exchange="gradients",
            memory=memory,
            compressor=compressor,
            collective=collective,
            schedule=schedule,
            steps_per_epoch=int(steps_per_epoch or 0),
            clip=float(clip),
            coordinates=0,
            # A tensor that is handed in by itself is meant to be sparsified.
            rules=(*rules, f"*={float(density)!r}"),
            rollback=False,
            timeout=float(timeout),
        )
        self._session = open_session(process_group, options)
        self._plans: dict[str, tuple[int, torch.Size]] = {}
        remember(self, self._session)

    def __call__(self, tensor: torch.Tensor, name: str = "tensor") -> torch.Tensor:
        """Reduces `tensor` in place and returns it. Where a gradient, or the sum, is not
        finite it becomes all NaN, and what is owed is as before."""
        core = self._session.core
        if name not in self._plans:
            self._plans[name] = (core.add_plan([(name, list(tensor.shape))]), tensor.shape)
        plan, shape = self._plans[name]
        if tensor.shape != shape:
            raise _core.ConfigError(
                f"The tensor {name} had the shape {tuple(shape)} and now has "
                f"{tuple(tensor.shape)}: give tensors of their own names."
            )
        core.reduce(plan, tensor.detach()).wait()
        return tensor


_numbers = itertools.count()


def fsdp_all_reduce_hook(state: SparseAllreduce) -> Callable[[torch.Tensor], None]:
    """A hook for FSDPModule.set_all_reduce_hook(): one-dimensional FSDP inside a node, and a
    sparse mean between the nodes.

        across = topknot.SparseAllreduce(density=0.01, process_group=replicas)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_all_reduce_hook(topknot.fsdp_all_reduce_hook(across))

    Every module needs a hook of its own, made in the same order on all ranks: each keeps
    what its shard owes. The ranks of `state` are those that have the same shard.
    """
    name = f"fsdp.{next(_numbers)}"

    def hook(reduce_output: torch.Tensor) -> None:
        state(reduce_output, name)

    return hook
