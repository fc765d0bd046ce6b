"""Fits a small network with Lightning's Trainer: a sanity check, accumulation, validations.

The word ``launch``: Lightning starts a second rank."""

import os
import traceback

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from numbers_network import WORDS, Network, batches, options
from results import print_results, weights_hash


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.network = Network()

    def training_step(self, batch, index):
        if "raise" in WORDS and index == 4:
            self.network(batch[:, :3])
        loss = self.network(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.network(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def train(callbacks):
    seed_everything(0, verbose=False)
    module = Module()
    trainer = Trainer(
        max_epochs=1,
        accumulate_grad_batches=2,
        callbacks=callbacks,
        logger=[CSVLogger("."), TensorBoardLogger(".", name="events")],
        log_every_n_steps=1,
        accelerator="cpu",
        devices=2 if "launch" in WORDS else int(os.environ.get("WORLD_SIZE", "1")),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = batches(8), batches(3, seed=1)
    loaders = [torch.utils.data.DataLoader(each, batch_size=None) for each in data]
    raised = ""
    try:
        trainer.fit(module, *loaders)
    except RuntimeError as error:
        raised = [each.name for each in traceback.extract_tb(error.__traceback__)]
    return weights_hash(module), trainer, raised


bare, trainer, raised = train([])
results = {"bare": bare, "raised": raised}
if "bare" not in WORDS:
    from sonde.integrations.lightning import SondeCallback

    callback = SondeCallback(**options())
    observed, trainer, raised = train([callback])
    count = trainer.callback_metrics.get("sonde_findings")
    results |= {"observed": observed, "findings": callback.findings, "raised": raised}
    results["counted"] = None if count is None else float(count)
print_results(**results, steps=trainer.global_step, log_dir=trainer.logger.log_dir)
