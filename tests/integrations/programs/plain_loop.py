"""Trains a small network in a plain loop. The word ``own`` opens a run of wandb of its own."""

import random

import torch
from numbers_network import WORDS, Network, batches
from results import print_results, weights_hash

random.seed(0)
torch.manual_seed(0)
run = None
if "own" in WORDS:
    import wandb

    run = wandb.init(project="own")
network = Network()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for batch in batches():
    optimizer.zero_grad()
    loss = network(batch)
    loss.backward()
    optimizer.step()
    if run is not None:
        run.log({"train_loss": loss.item()})
steps = 0 if run is None else run.step
print_results(weights=weights_hash(network), draw=random.random(), steps=steps)
