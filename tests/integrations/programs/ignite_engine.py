"""Trains a small network with an engine of Ignite, with accumulation."""

import traceback

import torch
from ignite.engine import Engine
from numbers_network import WORDS, Network, batches, options
from results import print_results, weights_hash


def train(attach):
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    def update(engine, batch):
        if "raise" in WORDS and engine.state.iteration == 5:
            network(batch[:, :3])
        network.train()
        loss = network(batch) / 2
        loss.backward()
        if engine.state.iteration % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    engine = Engine(update)
    attached = attach(engine, **options()) if attach else None
    raised = ""
    try:
        engine.run(batches(), max_epochs=1)
    except RuntimeError as error:
        raised = [each.name for each in traceback.extract_tb(error.__traceback__)]
    return weights_hash(network), engine.state, attached, raised


bare, state, _, raised = train(None)
results = {"bare": bare, "raised": raised}
if "bare" not in WORDS:
    from sonde.integrations.ignite import attach

    observed, state, attached, raised = train(attach)
    results |= {"observed": observed, "findings": attached.findings, "raised": raised}
print_results(**results, steps=state.iteration, metrics=state.metrics)
