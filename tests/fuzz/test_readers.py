"""A sample of the damaged and hostile inputs of ``make fuzz``: each is read or refused.

Every kind is read in a forked process, which may use 700 MB more than it starts with: a claimed
size that is believed ends it. The seed is fixed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.dump.made import small_dump

from sonde.adapters.torch.checkpoints.files import read_torch
from sonde.compare.losses.sources import read_losses
from sonde.compare.weights.files import open_checkpoint
from sonde.core.errors import SondeError
from sonde.dump.reader import Dump

ROOT = Path(__file__).parents[2]
COUNT = 400


def test_damaged_inputs_are_read_or_refused_with_their_name(tmp_path: Path) -> None:
    words = ("-W", "ignore", "-m", "tests.fuzz.run", "--count", str(COUNT), "--seed", "20261115")
    done = subprocess.run(
        [sys.executable, *words, "--jobs", "1", "--to", str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    total, _, rest = done.stdout.splitlines()[-1].partition(" ")
    assert int(total) >= COUNT
    assert rest == "inputs read or refused, 0 failures"


def test_pipes_in_place_of_files_are_refused_without_waiting(tmp_path: Path) -> None:
    made = small_dump(tmp_path / "dump")
    files = sorted(path for path in made.root.rglob("*") if path.is_file())
    for path in files:
        path.unlink()
        os.mkfifo(path)
    for name in ("statistic.csv", "mapping.csv", "overflow.json"):
        os.mkfifo(made.step(0) / name)
    dump = Dump(made.root)
    problems = dump.check()
    assert any(problem.path.suffix == ".pb" for problem in problems)
    assert any(problem.path.suffix == ".npy" for problem in problems)
    for record in dump.tensors():
        with pytest.raises(SondeError):
            record.numpy()
    for name in ("a.ckpt", "a.pt", "a.safetensors", "a.npz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(SondeError, match="is not a file"):
            open_checkpoint(tmp_path / name, read_torch)
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(SondeError, match="is not a file"):
        read_losses(tmp_path / "a.csv")
