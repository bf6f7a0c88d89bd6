# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: one line behind accelerator.prepare().

    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    topknot.accelerate.attach(accelerator, model, optimizer, density=0.01)

Import it by `import topknot.accelerate`. accelerator.save_state() and load_state() carry the
residuals.
"""

from typing import Any

import torch

from topknot._adapter import Adapter

try:
    import accelerate
except ImportError as error:
    raise ImportError(
        "topknot.accelerate needs Accelerate, which is not installed here: pip install accelerate."
    ) from error


def attach(
    accelerator: accelerate.Accelerator,
    model: torch.nn.Module,
    optimizer: Any,
    *,
    exchange: str = "gradients",
    every: int | None = None,
    **options: Any,
) -> None:
    """Makes a prepared model and optimizer exchange little.

        attach(accelerator, model, optimizer, density=0.01)        # topknot.attach()
        attach(accelerator, model, optimizer, exchange="updates")  # DistributedOptimizer()
        attach(accelerator, model, optimizer, every=30)            # LocalSteps()

    The other options are those of the function named. topknot.stats() takes the model, and
    with updates and local steps optimizer.optimizer, which is torch's. With these, call
    topknot.end_round(optimizer.optimizer) on all ranks before evaluation and at the end;
    save_state() does it by itself.
    """
    adapter = Adapter(exchange, every, options)
    adapter.start(model, getattr(optimizer, "optimizer", optimizer))
    if adapter.owner is not None:
        accelerator.register_save_state_pre_hook(lambda *_: adapter.end_round())
        accelerator.register_for_checkpointing(_Saved(adapter))


class _Saved:
    """What save_state() saves and load_state() restores, behind models and optimizers."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def state_dict(self) -> dict[str, Any]:
        return {"ranks": self._adapter.gather()}  # accelerate writes rank 0's

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._adapter.load_gathered(state["ranks"])
