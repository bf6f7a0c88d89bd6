# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer: a callback.

    trainer = transformers.Trainer(model, arguments, train_dataset=data)
    trainer.add_callback(topknot.transformers.TopknotCallback(trainer, density=0.01))
    trainer.train()

Import it by `import topknot.transformers`. Every rank saves its residuals in a file of the
Trainer's checkpoint, topknot_RANK.pt, and trainer.train(resume_from_checkpoint=...) restores them.
"""

import pathlib
import weakref
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core
from topknot._adapter import Adapter

try:
    import transformers
except ImportError as error:
    raise ImportError(
        "topknot.transformers needs Transformers, which is not installed here: "
        "pip install transformers accelerate."
    ) from error


class TopknotCallback(transformers.TrainerCallback):
    """Exchanges little in the Trainer that it is made for and added to.

        TopknotCallback(trainer, density=0.01)        # sparse gradients, topknot.attach()
        TopknotCallback(trainer, exchange="updates")  # topknot.DistributedOptimizer()
        TopknotCallback(trainer, every=30)            # topknot.LocalSteps()

    resume_from  the checkpoint that train() goes on from, where it is not in the Trainer's
                 own output_dir

    The other options are those of the function named. Rounds of local steps end before
    evaluation, checkpoints and the end of training. `stats_of` is what topknot.stats() takes.
    """

    def __init__(
        self,
        trainer: transformers.Trainer,
        *,
        exchange: str = "gradients",
        every: int | None = None,
        resume_from: str | None = None,
        **options: Any,
    ) -> None:
        self._trainer = weakref.ref(trainer)
        self._adapter = Adapter(exchange, every, options)
        self._resume_from = resume_from

    @property
    def stats_of(self) -> Any:
        return self._adapter.owner

    # The Trainer has restored model and optimizer by now.
    def on_train_begin(self, args, state, control, optimizer=None, **_: Any) -> None:
        trainer = self._trainer()
        assert trainer is not None
        states = None
        if state.global_step > 0 and dist.is_initialized():
            states = _load(self._resume_from or _folder(args, state))
        inner = getattr(optimizer, "optimizer", optimizer)
        self._adapter.start(trainer.model_wrapped, inner, states[0] if states else None)
        if states and self._adapter.owner is not None:
            self._adapter.load(states)

    # Behind the Trainer's own callback, which decides what comes next.
    def on_step_end(self, args, state, control, **_: Any) -> None:
        self._end_round_for(control)

    def on_epoch_end(self, args, state, control, **_: Any) -> None:
        self._end_round_for(control)

    def on_train_end(self, args, state, control, **_: Any) -> None:
        self._adapter.end_round()

    def on_save(self, args, state, control, **_: Any) -> None:
        if self._adapter.owner is None:
            return
        folder = _folder(args, state)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self._adapter.state(), folder / f"topknot_{dist.get_rank()}.pt")

    def _end_round_for(self, control: transformers.TrainerControl) -> None:
        if control.should_save or control.should_evaluate or control.should_training_stop:
            self._adapter.end_round()


def _folder(args: transformers.TrainingArguments, state: transformers.TrainerState) -> pathlib.Path:
    return pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}"


def _load(folder: str | pathlib.Path) -> list[dict[str, Any]]:
    """This rank's state, or those of all ranks where their number was another."""
    folder = pathlib.Path(folder)
    mine = folder / f"topknot_{dist.get_rank()}.pt"
    found = sorted(folder.glob("topknot_*.pt"), key=lambda path: int(path.stem.split("_")[1]))
    if not found:
        raise _core.ConfigError(
            f"There is no topknot_RANK.pt in {folder}, and so no residuals to go on with: say "
            "resume_from= where the checkpoint is elsewhere."
        )
    states = [torch.load(mine, weights_only=True)] if mine in found else []
    if not states or states[0]["topknot"]["world_size"] != dist.get_world_size():
        states = [torch.load(path, weights_only=True) for path in found]
    return states
