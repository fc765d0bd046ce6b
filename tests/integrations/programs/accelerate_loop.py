"""Trains a small network with accelerate, with accumulation."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from numbers_network import RANKS, WORDS, Network, batches, options
from results import print_results, weights_hash


def train(tracker):
    set_seed(0)
    trackers = [tracker, "tensorboard"] if tracker and "tensorboard" in WORDS else tracker
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=2, log_with=trackers, project_dir="events"
    )
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(batches(), batch_size=None)
    model, optimizer = accelerator.prepare(network, optimizer)
    if RANKS == 1:  # Accelerate divides no loader without batches.
        loader = accelerator.prepare(loader)
    if tracker is not None:
        accelerator.init_trackers("tests")
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(batch)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.log({"loss": loss.item()}, step=step)
        if tracker is not None and tracker.should_stop:
            break
    accelerator.end_training()
    return weights_hash(network), step + 1


# A process group is for one training: accelerate destroys it at its end.
bare, steps = train(None) if RANKS == 1 else ("", 0)
results = {"bare": bare}
if "bare" not in WORDS:
    from sonde.integrations.accelerate import SondeTracker

    tracker = SondeTracker(**options())
    observed, steps = train(tracker)
    results |= {"observed": observed, "findings": tracker.findings}
print_results(**results, steps=steps)
