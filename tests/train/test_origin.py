"""With Sonde observing, the message about a NaN loss names the op it came from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

SCRIPT = """
import torch
from torch import nn
from sonde.train import LossMonitor, Model

class GateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        gate = torch.log(x[:, 0:1] + 1.0)
        return self.fc2(torch.relu(self.fc1(x)) * gate)

torch.manual_seed(13)
x = torch.rand(16, 6)
x[9, 0] = -2.5  # third batch: log of a negative number
y = torch.randint(0, 3, (16,))
net = GateNet()
model = Model(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
model.train(1, list(zip(x.split(4), y.split(4))), callbacks=LossMonitor())
"""


@pytest.mark.document(16)
def test_a_nan_under_sonde_run_is_traced_to_its_op_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [warm_python(), "-m", "sonde", "run", "--overflow", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "epoch: 1 step: 1",
        "epoch: 1 step: 2",
    ]
    assert (
        "In epoch: 1 step: 3, loss is NAN or INF, training process cannot continue, terminating "
        "training. The first NaN or Inf came from Default/network-GateNet/log-op0 at "
        f"{tmp_path}/train.py:13."
    ) in done.stderr
