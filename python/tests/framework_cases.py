# SPDX-License-Identifier: Apache-2.0
"""The adapters to Lightning, Accelerate and Transformers, with the packages themselves."""

import logging
import os
import pathlib
import shutil
import tempfile
import warnings

import torch
import torch.distributed as dist
from cases import main, rank, same_bits_everywhere
from ddp_cases import Network, flat
from torch import nn
from updates_cases import adamw, sgd

os.environ.setdefault("HF_HUB_OFFLINE", "1")
EPOCH = 4  # steps of each rank
BATCH = 8
# Of the adapters: what trains, and the optimizer.
KINDS = {
    "gradients": ({"density": 0.05}, adamw),
    "momentum": ({"density": 0.05}, sgd),
    "updates": ({"exchange": "updates", "density": 0.05, "bucket_mb": 0.01}, adamw),
    "rounds": ({"exchange": "updates", "bucket_mb": 0.01}, adamw),
    "diloco": ({"every": 3, "scheme": "diloco", "bucket_mb": 0.01}, adamw),
    "delayed": ({"every": 3, "delay": 1, "bucket_mb": 0.01}, sgd),
}


class Samples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return EPOCH * BATCH * dist.get_world_size()

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        drawn = torch.Generator().manual_seed(i)
        return {"x": torch.randn(24, generator=drawn), "labels": torch.tensor(i % 10)}


class Classifier(nn.Module):
    """As Trainer calls it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.network = Network()

    def forward(self, x, labels):
        logits = self.network(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def common_folder() -> pathlib.Path:
    name = [tempfile.mkdtemp() if rank() == 0 else None]
    dist.broadcast_object_list(name)
    return pathlib.Path(name[0])


# ---- one training of each framework: two epochs with a checkpoint behind each, or the second
# alone, from the first's checkpoint. `options` None: the framework by itself.


def with_lightning(folder, options, optimizer, resume: bool) -> torch.Tensor:
    import lightning as L

    from topknot.lightning import Topknot

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Classifier()

        def training_step(self, batch, _):
            return self.model(**batch)["loss"]

        def configure_optimizers(self):
            return optimizer(self.parameters())

    module = Module()
    keep = L.pytorch.callbacks.ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
    trainer = L.Trainer(
        strategy=L.pytorch.strategies.DDPStrategy(bucket_cap_mb=0.01),
        accelerator="cpu", devices=dist.get_world_size(), max_epochs=2, logger=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=[keep] if options is None else [keep, Topknot(**options)],
    )  # fmt: skip
    data = torch.utils.data.DataLoader(Samples(), BATCH)
    trainer.fit(module, data, ckpt_path=folder / "epoch=0.ckpt" if resume else None)
    return flat(module)


def with_accelerate(folder, options, optimizer, resume: bool) -> torch.Tensor:
    import accelerate

    import topknot.accelerate

    accelerator = accelerate.Accelerator(
        cpu=True,
        kwargs_handlers=[accelerate.DistributedDataParallelKwargs(bucket_cap_mb=0.01)],
        dataloader_config=accelerate.DataLoaderConfiguration(use_seedable_sampler=True),
    )
    model = Classifier()
    model, own, data = accelerator.prepare(
        model, optimizer(model.parameters()), torch.utils.data.DataLoader(Samples(), BATCH)
    )
    if options is not None:
        topknot.accelerate.attach(accelerator, model, own, **options)
    if resume:
        accelerator.load_state(folder / "0")
    for epoch in range(int(resume), 2):
        for batch in data:
            own.zero_grad()
            accelerator.backward(model(**batch)["loss"])
            own.step()
        accelerator.save_state(folder / str(epoch))
    return flat(model)


def with_transformers(folder, options, optimizer, resume: bool) -> torch.Tensor:
    import transformers

    from topknot.transformers import TopknotCallback

    model = Classifier()
    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=2, per_device_train_batch_size=BATCH, use_cpu=True,
        save_strategy="epoch", report_to="none", disable_tqdm=True, max_grad_norm=0,
        lr_scheduler_type="constant", train_sampling_strategy="sequential", logging_strategy="no",
    )  # fmt: skip
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Samples(),
        optimizers=(optimizer(model.parameters()), None),
    )  # fmt: skip
    if options is not None:
        trainer.add_callback(TopknotCallback(trainer, **options))
    trainer.train(resume_from_checkpoint=str(folder / f"checkpoint-{EPOCH}") if resume else None)
    return flat(model)


FRAMEWORKS = {
    "lightning": with_lightning,
    "accelerate": with_accelerate,
    "transformers": with_transformers,
}


def _first_moments(optimizer) -> torch.Tensor:
    kept = [s.get("exp_avg", s.get("momentum_buffer")) for s in optimizer.state.values()]
    return torch.cat([one.flatten() for one in kept])


def _holds_what_it_promises(name: str) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    train = FRAMEWORKS[name]

    def trained(options, optimizer, resumes: bool = False) -> list[torch.Tensor]:
        folder = common_folder()
        weights = [train(folder, options, optimizer, resume=False)]
        if resumes:
            weights.append(train(folder, options, optimizer, resume=True))
        dist.barrier()
        if rank() == 0:
            shutil.rmtree(folder)
        return weights

    (plain,) = trained(None, adamw)
    for options in ({"density": 1}, {"exchange": "updates", "density": 1}):
        (dense,) = trained(options, adamw)
        torch.testing.assert_close(dense, plain, rtol=1e-5, atol=1e-6)
    for kind, (options, make) in KINDS.items():
        made = []

        def optimizer(parameters):
            made.append(make(parameters))
            return made[-1]

        whole, resumed = trained(options, optimizer, resumes=True)
        if kind != "momentum":  # whose optimizer has none
            common = same_bits_everywhere(_first_moments(made[-1]))
            assert common == (kind == "gradients"), f"{kind}: whose gradients are these?"
        assert torch.equal(resumed, whole), f"{kind}: resumed to other bits"
        assert same_bits_everywhere(whole), kind
        assert not torch.equal(whole, plain), kind


def lightning_holds_what_it_promises():
    _holds_what_it_promises("lightning")


def accelerate_holds_what_it_promises():
    _holds_what_it_promises("accelerate")


def transformers_holds_what_it_promises():
    _holds_what_it_promises("transformers")


if __name__ == "__main__":
    main(globals())
