"""Threads that train one network without locks; here one after the other, so that the result is
always the same. The main thread trains first."""

import threading

import torch
from results import FAULT_STEP, print_results
from torch import nn


def train(seed, losses):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for step in range(3):
        x = torch.randn(4, 6, generator=generator)
        loss = model(x).square().mean()
        if seed == 0 and step == FAULT_STEP:
            loss = loss + (loss - loss) / (loss - loss)  # FAULT
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
model.share_memory()
losses = []
train(0, losses)
for seed in (1, 2):
    worker = threading.Thread(target=train, args=(seed, losses))
    worker.start()
    worker.join()
print_results(losses, model.state_dict())
