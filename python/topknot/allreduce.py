# SPDX-License-Identifier: Apache-2.0
"""The plain operation on tensors, and what it is good for under FSDP."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core
from topknot._options import DENSITY, make_options
from topknot._session import open_session, refuse_rate_inside, remember


class SparseAllreduce:
    """Replaces a tensor with the mean, over the ranks, of its coordinates that matter.

        reduce = topknot.SparseAllreduce(density=0.01)
        reduce(gradient)

    What was not sent is kept and joins the next call with the same `name`. All ranks make
    one, and call it, with the same arguments in the same order. The options are those of
    topknot.attach(); `process_group` is whose ranks take part, all by default.
    """

    def __init__(
        self,
        scheme: str | None = None,
        density: float | None = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        asked = DENSITY if density is None else density
        made = make_options("SparseAllreduce", scheme=scheme, density=asked, **options)
        # A tensor that is handed in by itself is meant to be sparsified.
        made = dataclasses.replace(made, rules=(*made.rules, f"*={made.density!r}"))
        refuse_rate_inside(made)
        if made.split().local_steps > 1:
            raise _core.ConfigError("local_steps is for topknot.DistributedOptimizer().")
        self._session = open_session(process_group, made)
        self._slots: dict[str, tuple[int, torch.Size]] = {}
        remember(self, self._session)

    def __call__(self, tensor: torch.Tensor, name: str = "tensor") -> torch.Tensor:
        """Reduces `tensor` in place and returns it. Where a gradient, or the sum, is not
        finite it becomes all NaN, and the residual is as before."""
        if not tensor.is_floating_point():
            raise _core.ConfigError(
                f"A tensor of {tensor.dtype} cannot hold a mean: hand in one of a floating type."
            )
        core = self._session.core
        if name not in self._slots:
            slot = core.add_slot([(name, list(tensor.shape))], tensor.device)
            self._slots[name] = (slot, tensor.shape)
        slot, shape = self._slots[name]
        if tensor.shape != shape:
            raise _core.ConfigError(
                f"The tensor {name} had the shape {tuple(shape)} and now has "
                f"{tuple(tensor.shape)}: give tensors of their own names."
            )
        core.reduce(slot, tensor.detach()).wait()
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
    the residual of its shard. The ranks of `state` are those that have the same shard.
    """
    name = f"fsdp.{next(_numbers)}"

    def hook(reduce_output: torch.Tensor) -> None:
        state(reduce_output, name)

    return hook
