"""Trains a small network with an engine of Ignite, with accumulation and evaluations."""

import traceback

import torch
from ignite.engine import Engine, Events
from numbers_network import RANKS, WORDS, Network, batches, options
from results import print_results, weights_hash

if RANKS > 1:
    torch.distributed.init_process_group("gloo")


def train(attach):
    torch.manual_seed(0)
    network = Network()
    model = torch.nn.parallel.DistributedDataParallel(network) if RANKS > 1 else network
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    def update(engine, batch):
        if "raise" in WORDS and engine.state.iteration == 5:
            network(batch[:, :3])
        network.train()
        loss = model(batch) / 2
        loss.backward()
        if engine.state.iteration % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    def evaluate(engine, batch):
        network.eval()
        with torch.no_grad():
            return network(batch).item()

    engine, evaluator = Engine(update), Engine(evaluate)
    for event in (Events.STARTED, Events.ITERATION_COMPLETED(every=3)):
        engine.add_event_handler(event, lambda: evaluator.run(batches(3, seed=1)))
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
if RANKS > 1:
    torch.distributed.destroy_process_group()
print_results(**results, steps=state.iteration, metrics=state.metrics)
