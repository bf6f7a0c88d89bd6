# SPDX-License-Identifier: Apache-2.0
"""Lightning: a callback for a Trainer with strategy="ddp".

    trainer = lightning.Trainer(strategy="ddp", callbacks=[topknot.lightning.Topknot(density=0.01)])

Import it by `import topknot.lightning`. The checkpoints of the Trainer carry the residuals.
"""

import sys
from typing import Any

from topknot import _core
from topknot._adapter import Adapter

try:  # that of which the script has taken its Trainer
    if sys.modules.get("pytorch_lightning") and not sys.modules.get("lightning"):
        import pytorch_lightning as pl
    else:
        import lightning.pytorch as pl
except ImportError as error:
    raise ImportError(
        "topknot.lightning needs Lightning, which is not installed here: pip install lightning."
    ) from error

_KEY = "topknot"


class Topknot(pl.Callback):
    """Exchanges little, as topknot.attach() does, in a Trainer with strategy="ddp".

        Topknot(density=0.01)                     # sparse gradients, topknot.attach()
        Topknot(exchange="updates")               # topknot.DistributedOptimizer()
        Topknot(every=30, scheme="sparseloco")    # topknot.LocalSteps()

    The other options are those of the function named. Rounds of local steps end before
    validation, checkpoints and the end of training. `stats_of` is what topknot.stats() takes.
    """

    def __init__(
        self, *, exchange: str = "gradients", every: int | None = None, **options: Any
    ) -> None:
        self._adapter = Adapter(exchange, every, options)
        self._loaded: list[Any] | None = None

    @property
    def stats_of(self) -> Any:
        return self._adapter.owner

    # Between the making of DDP and optimizers, and the restoring of the latter.
    def on_fit_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if len(trainer.optimizers) != 1:
            raise _core.ConfigError(
                f"topknot.lightning.Topknot() takes one optimizer, and there are "
                f"{len(trainer.optimizers)}."
            )
        self._adapter.start(trainer.strategy.model, trainer.optimizers[0])

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self._loaded is not None and self._adapter.owner is not None:
            self._adapter.load_gathered(self._loaded)
        self._loaded = None

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._adapter.end_round()

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._adapter.end_round()

    def on_save_checkpoint(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", checkpoint: dict[str, Any]
    ) -> None:
        if self._adapter.owner is None:
            return
        self._adapter.end_round()
        checkpoint["state_dict"] = trainer.strategy.lightning_module_state_dict()
        checkpoint[_KEY] = self._adapter.gather()

    def on_load_checkpoint(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", checkpoint: dict[str, Any]
    ) -> None:
        self._loaded = checkpoint.get(_KEY)
