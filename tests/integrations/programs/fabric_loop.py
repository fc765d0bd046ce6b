"""Trains a small network with Fabric."""

import torch
from lightning.fabric import Fabric, seed_everything
from lightning.fabric.loggers import CSVLogger
from numbers_network import RANKS, WORDS, Network, batches, options
from results import print_results, weights_hash


def train(callback):
    seed_everything(0, verbose=False)
    logger = CSVLogger(".", flush_logs_every_n_steps=1)
    fabric = Fabric(
        accelerator="cpu", devices=RANKS, loggers=logger, callbacks=[callback] if callback else []
    )
    fabric.launch()
    network = Network()
    module, optimizer = fabric.setup(network, torch.optim.Adam(network.parameters(), lr=1e-2))
    steps = 0
    for batch in batches():
        optimizer.zero_grad()
        fabric.backward(module(batch))
        optimizer.step()
        steps += 1
        if callback and callback.should_stop:
            break
    fabric.call("on_train_end")
    return weights_hash(network), steps, logger.log_dir


bare, steps, log_dir = train(None)
results = {"bare": bare}
if "bare" not in WORDS:
    from sonde.integrations.lightning import SondeFabricCallback

    callback = SondeFabricCallback(**options())
    observed, steps, log_dir = train(callback)
    results |= {"observed": observed, "findings": callback.findings}
print_results(**results, steps=steps, log_dir=log_dir)
