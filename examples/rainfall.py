"""A small training that goes wrong: a network predicts river flow from rainfall records.

The records are synthetic. As in real ones, a sensor that failed wrote -999 into one of them. The
network takes the logarithm of the rain, so the loss and all weights become NaN in the step that
reads the bad record.

    python examples/rainfall.py [--epochs N]
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

STATIONS = 8
RECORDS = 320
BAD_RECORD, BAD_STATION = 233, 5


class FlowNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.soil = nn.Linear(STATIONS, 32)
        self.norm = nn.LayerNorm(32)
        self.river = nn.Linear(32, 1)

    def forward(self, rain: torch.Tensor) -> torch.Tensor:
        wetness = torch.log(rain + 1.0)
        return self.river(torch.relu(self.norm(self.soil(wetness)))).squeeze(1)


def records() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    rain = torch.rand(RECORDS, STATIONS, generator=generator).mul(20).pow(1.5)
    weights = torch.linspace(0.2, 1.0, STATIONS)
    flow = (torch.log(rain + 1) @ weights) + 0.1 * torch.randn(RECORDS, generator=generator)
    rain[BAD_RECORD, BAD_STATION] = -999.0
    return rain, flow


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    rain, flow = records()
    network = FlowNet()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    step = 0
    for _ in range(options.epochs):
        for first in range(0, RECORDS, 32):
            batch, target = rain[first : first + 32], flow[first : first + 32]
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(network(batch), target)
            loss.backward()
            optimizer.step()
            print(f"step {step}: loss {loss.item():.4f}")
            step += 1


if __name__ == "__main__":
    main()
