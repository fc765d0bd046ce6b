"""``sonde run --check-ranks`` under ``accelerate launch`` with two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

SCRIPT = """
import sys
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randint(0, 4, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
called = accelerator.unwrap_model(model) if "unwrapped" in sys.argv else model
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(nn.functional.cross_entropy(called(x), y))
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("wrapped", "2 ranks compared in 16 steps: no difference that should not be"),
        (
            "unwrapped",
            "gradients-not-exchanged (established): ranks 0-1 use gradients of their own",
        ),
    ],
)
def test_ranks_of_accelerate_are_compared(tmp_path: Path, how: str, said: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    command += ["--dynamo_backend", "no", "--main_process_port", "0", "-m", "sonde", "run"]
    command += ["--check-ranks", str(script), how]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
