"""Captured steps of small scripts, for the tests of ``sonde replay`` and ``sonde verify``."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.warm_python.starting import warm_python

SCRIPT = """\
import sys
import torch
from torch import nn
from torch.nn.functional import cross_entropy

WIDTH = 8
started = open("started.txt", "a")
started.write("once ")
started.flush()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x):
        h = self.drop(self.norm(self.first(x)))
        gain = torch.sqrt(100.0 - x.sum(1, keepdim=True))  # the fault: x may sum to more
        return self.last(h * gain)


def main():
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for step in range(5):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        if step == 3:
            x[11] = 50.0
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained")


if __name__ == "__main__":
    main()
"""


def guarded(
    folder: Path, script: str = SCRIPT, name: str = "train.py", words: Sequence[str] = ()
) -> Path:
    """Run a script under the guard with these options; the directory of the step that it kept."""
    (folder / name).write_text(script)
    done = subprocess.run(
        [warm_python(), "-m", "sonde", "run", "--guard", *words, name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (step,) = (folder / "sonde_steps").glob("step_*")
    return step


def sonde(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command of Sonde in a fresh process."""
    return subprocess.run(
        [warm_python(), "-m", "sonde", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
