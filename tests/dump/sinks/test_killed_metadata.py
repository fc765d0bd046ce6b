"""The metadata of a dump after ``kill -9`` at any moment: each file is whole, or not there."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from sonde.dump.layout import RankLayout, is_partial
from sonde.dump.reader import Dump
from sonde.dump.sinks.steps import write_metadata

CONFIG = json.dumps({"common_dump_settings": {"kernels": [f"op{n}" for n in range(20_000)]}})
FACTS = {"framework": "torch", "note": "x" * 100_000}


def _write_for_ever(root: Path, pipe: int) -> None:
    """Begin one dump after the other, each with its metadata; runs in a forked child."""
    number = 0
    while True:
        rank = RankLayout(root / f"rank_{number % 4}")
        write_metadata(rank, CONFIG, FACTS)
        if number == 4:
            os.write(pipe, b"!")
        number += 1


def _killed_after(root: Path, seconds: float) -> None:
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _write_for_ever(root, tell)
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_kill_leaves_whole_metadata_or_none(tmp_path: Path) -> None:
    chance = random.Random(0)
    sys.stdout.flush()
    for number in range(25):
        root = tmp_path / str(number)
        _killed_after(root, chance.random() * 0.01)
        found = [path for path in root.rglob("*") if path.is_file()]
        whole = [path for path in found if not is_partial(path.name)]
        assert len(whole) == 8
        for path in whole:
            content = json.loads(path.read_text())
            assert content == (FACTS if path.name == "config.json" else json.loads(CONFIG))
        assert len(found) - len(whole) <= 1  # at most the one that was being written
        Dump(root).metadata()
