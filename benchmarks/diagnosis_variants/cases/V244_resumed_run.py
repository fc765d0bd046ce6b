"""Train in two parts, as a job that was preempted does."""
import os
import tempfile

import torch
from torch import nn

PATH = os.path.join(tempfile.gettempdir(), f"weights-{os.getpid()}.pt")


def build():
    model = nn.Sequential(nn.Linear(10, 64), nn.Mish(), nn.Linear(64, 64), nn.Mish(), nn.Linear(64, 1))
    return model, torch.optim.Adam(model.parameters(), lr=2e-3, amsgrad=True)


def run(first, last):
    torch.manual_seed(first)
    model, optimizer = build()
    if os.path.exists(PATH):
        checkpoint = torch.load(PATH)
        model.load_state_dict(checkpoint["weights"])
        assert checkpoint["step"] == first
    for step in range(first, last):
        x = torch.randn(64, 10)
        loss = (model(x).squeeze(1) - x[:, :3].sum(1).sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"weights": model.state_dict(), "step": last}, PATH)
    print(last, loss.item())


try:
    for part in range(3):
        run(60 * part, 60 * part + 60)
finally:
    os.remove(PATH)
