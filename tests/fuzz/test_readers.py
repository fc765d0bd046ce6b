"""Thousands of damaged and hostile files: each is read or refused, and nothing else happens.

Each kind is read in a process of its own, which may use 700 MB more than it starts with: a claimed
size that is believed ends it. Seeds are fixed; the whole takes well under a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.dump.made import small_dump
from tests.fuzz.kinds import KINDS

from sonde.adapters.torch.checkpoints.files import read_torch
from sonde.compare.losses.sources import read_losses
from sonde.compare.weights.files import open_checkpoint
from sonde.core.errors import SondeError
from sonde.dump.reader import Dump

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNTS = {"dump": 500, "foreign_dump": 100}
OTHERS = 1200
MAY_GROW = 48 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_with_their_name(kind: str, tmp_path: Path) -> None:
    count = COUNTS.get(kind, OTHERS)
    words = (
        "-W",
        "ignore",
        "-m",
        "tests.fuzz.reading",
        kind,
        str(count),
        "20261115",
        str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["read"] + told["refused"] == count
    assert told["open"] == 0
    assert told["grown"] < MAY_GROW


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
