"""pdb in a network that is observed."""

from __future__ import annotations

import io
import pdb
import sys
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.dumping import arrays, dumping
from torch import nn


class Stopping(nn.Module):
    """Stops in pdb in its first call; the commands come from a text."""

    def __init__(self, commands: str) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.said = io.StringIO()
        self.commands: str | None = commands

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.fc(x)
        if self.commands is not None:
            typed, self.commands = io.StringIO(self.commands), None
            pdb.Pdb(stdin=typed, stdout=self.said, nosigint=True, readrc=False).set_trace()
        return hidden * 2


@pytest.mark.document(72)
def test_pdb_shows_values_and_walks_through_an_observed_network(tmp_path: Path) -> None:
    network = Stopping("p hidden.shape\nnext\np 'after', hidden.tolist()\ncontinue\n")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    before = sys.gettrace()
    with dumping(tmp_path):
        for _ in range(2):
            optimizer.zero_grad()
            network(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert sys.gettrace() is before
    hidden = arrays(tmp_path)[0, "Default/network-Stopping/fc-Linear/addmm-op0", "output", 0]
    said = network.said.getvalue()
    assert "torch.Size([1, 2])" in said
    assert f"('after', {hidden.tolist()})" in said
    assert {key[0] for key in arrays(tmp_path)} == {0, 1}
