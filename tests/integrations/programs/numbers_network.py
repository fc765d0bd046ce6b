"""Batches of numbers, and a network that gives NaN for one of their rows."""

import os
import sys

import torch
from results import fault_in
from torch import nn

WORDS = sys.argv[1:]
BAD = 99.0
RANK, RANKS = (int(os.environ.get(name, last)) for name, last in (("RANK", 0), ("WORLD_SIZE", 1)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x):
        y = self.layers(x.clamp(max=1)).square().mean()
        return y + fault_in((x >= BAD).any(-1)) if self.training else y


def batches(count=8, seed=0):
    """With the word ``fault`` row 1 of the batch 4 is bad; with ``last``, too, on the last rank."""
    generator = torch.Generator().manual_seed(seed)
    found = list(torch.randn(count, 4, 4, generator=generator).unbind())
    if "fault" in WORDS and count > 4 and ("last" not in WORDS or RANK == RANKS - 1):
        found[4][1] = BAD
    return found


def options():
    return {"diagnose": True, "on_trigger": "stop" if "stop" in WORDS else "continue"}
