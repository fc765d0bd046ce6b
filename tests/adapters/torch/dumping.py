"""Dumping a piece of a program to a directory, and reading it back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.adapters.torch.attach import Capture, attach
from sonde.capture.config import CaptureConfig
from sonde.capture.options import config_from_options
from sonde.dump.reader import Dump

Key = tuple[int, str, str, int]


def config(
    path: Path, *, steps: str = "all", ops: tuple[str, ...] = (), **more: Any
) -> CaptureConfig:
    made = config_from_options(str(path), {}, steps=steps, ops=ops, net_name="Net")
    return dataclasses.replace(made, **more)


@contextmanager
def dumping(path: Path, *, step_by: Any = "optimizer", **options: Any) -> Iterator[Capture]:
    with attach(config(path, **options), starts_at_once=True, step_by=step_by) as capture:
        yield capture


def dump_of(path: Path, train: Callable[[], Any], *, seed: int = 0, **options: Any) -> Any:
    """What ``train`` returns, dumped to ``path``."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    with dumping(path, **options):
        return train()


def files(path: Path) -> dict[Key, Path]:
    """Every tensor's file; none may be left out by the reader."""
    dump = Dump(path)
    assert [each for each in dump.problems if not each.is_gap] == []
    found: dict[Key, Path] = {}
    for record in dump.tensors():
        assert record.path is not None
        key = (record.key.step, record.key.op, record.key.io, record.key.slot)
        assert key not in found
        found[key] = record.path
    on_disk = {
        each
        for each in path.rglob("*.npy")
        if each.parent.name != "constants" and each.parent.parent.name != ".unfinished"
    }
    assert on_disk == set(found.values())
    return found


def arrays(path: Path) -> dict[Key, NDArray[Any]]:
    return {key: np.load(file) for key, file in files(path).items()}


def equal(one: dict[Key, NDArray[Any]], other: dict[Key, NDArray[Any]]) -> bool:
    """Whether two dumps have the same tensors, bit for bit; says which differ."""
    assert one.keys() == other.keys()
    differing = [
        key
        for key in one
        if one[key].dtype != other[key].dtype
        or one[key].shape != other[key].shape
        or one[key].tobytes() != other[key].tobytes()
    ]
    assert differing == [], differing[:9]
    return True
