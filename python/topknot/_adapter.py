# SPDX-License-Identifier: Apache-2.0
"""What the adapters to training frameworks have in common.

Each of these frameworks builds DistributedDataParallel itself, and saves the optimizer of rank 0.
With gradients the adapter attaches to that DDP. With updates and local steps it tells DDP to
leave gradients alone, as in no_sync(), and the optimizer exchanges; then each rank's optimizer
has a state of its own, which is saved with the residuals.
"""

import io
import warnings
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from topknot import _core
from topknot._gather import gather_state
from topknot._names import without_wrapper
from topknot._session import load_state_dict, session_of, state_dict
from topknot.ddp import attach
from topknot.local_steps import LocalSteps
from topknot.optimizer import DistributedOptimizer, end_round


class Adapter:
    """`options` are those of attach(); with exchange="updates" of DistributedOptimizer(), and
    with `every` of LocalSteps()."""

    def __init__(self, exchange: str, every: int | None, options: dict[str, Any]) -> None:
        if exchange not in ("gradients", "updates"):
            raise _core.ConfigError(f'exchange={exchange!r} is neither "updates" nor "gradients".')
        self._steps_alone = every is not None or exchange == "updates"
        self._every = every
        self._options = options
        self._optimizer: torch.optim.Optimizer | None = None
        self.owner: Any = None  # what topknot.stats() takes; None: one process, nothing to do

    def start(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        saved: dict[str, Any] | None = None,
    ) -> None:
        """`saved`: a state() that the optimizer has been restored from already."""
        ddp = without_wrapper(model)
        if not isinstance(ddp, DistributedDataParallel):
            warnings.warn(
                "topknot has nothing to do: the model is not a DistributedDataParallel, as with "
                "one process. Start several by torchrun, with the strategy ddp.",
                stacklevel=3,
            )
            return
        self._optimizer = optimizer
        if not self._steps_alone:
            options = dict(self._options)
            if saved is not None and saved["memory"].startswith("dgc"):
                options.setdefault("memory", saved["memory"])  # it has the optimizer's momentum
            attach(ddp, optimizer=optimizer, **options)
            self.owner = ddp
            return
        ddp.require_backward_grad_sync = False
        if self._every is not None:
            LocalSteps(optimizer, ddp.module, every=self._every, **self._options)
        else:
            parameters = without_wrapper(ddp.module).named_parameters()
            DistributedOptimizer(optimizer, parameters, **self._options)
        self.owner = optimizer

    def end_round(self) -> None:
        if self.owner is not None:
            end_round(self.owner)

    def state(self) -> dict[str, Any]:
        """Of this rank; between rounds."""
        assert self._optimizer is not None
        own = self._optimizer.state_dict()["state"] if self._steps_alone else None
        memory = session_of(self.owner).options.memory
        return {"memory": memory, "topknot": state_dict(self.owner), "optimizer": own}

    def load(self, states: list[dict[str, Any]]) -> None:
        """All of those that were saved, or this rank's alone. All ranks call it, behind the
        framework's own loading."""
        assert self._optimizer is not None
        load_state_dict(self.owner, [one["topknot"] for one in states])
        own = states[session_of(self.owner).rank % len(states)]["optimizer"]
        if own is not None:
            whole = self._optimizer.state_dict()
            self._optimizer.load_state_dict({**whole, "state": own})

    def gather(self) -> list[torch.Tensor]:
        """The states of all ranks, as bytes, on rank 0; empty elsewhere. All ranks call it."""
        buffer = io.BytesIO()
        torch.save(self.state(), buffer)
        mine = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
        ranks = gather_state({"values": {"bytes": mine}}, 0, session_of(self.owner).group)
        return [one["values"]["bytes"] for one in ranks or []]

    def load_gathered(self, packed: list[torch.Tensor]) -> None:
        """What gather() gave on rank 0."""
        session = session_of(self.owner)
        mine = [packed[session.rank]] if len(packed) == session.size else packed
        self.load([_unpack(one) for one in mine])


def _unpack(packed: torch.Tensor) -> dict[str, Any]:
    return torch.load(io.BytesIO(packed.cpu().numpy().tobytes()), weights_only=True)
