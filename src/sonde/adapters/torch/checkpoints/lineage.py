"""Notes which data and checkpoints a training uses, for the lineage of its run."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from sonde.core.interruption import ignored
from sonde.core.patching import call_before
from sonde.dump.lineage import LINEAGE, Kind, dataset_path

_MOST_LEVELS: Final = 8


def note_lineage(undo: ExitStack) -> None:
    """Note what torch loads and saves, and the datasets of its loaders, until ``undo`` is closed.
    No file is opened for it."""
    call_before(torch, "load", _loaded, undo)
    call_before(torch, "save", _saved, undo)
    call_before(DataLoader, "__iter__", _iterated, undo)


def keep_lineage(directory: Path, undo: ExitStack) -> None:
    """Write the lineage of this process to a directory, until ``undo`` is closed; a run without one
    is complete all the same."""
    with ignored(OSError):
        LINEAGE.keep_in(directory)
    undo.callback(LINEAGE.forget, directory)


def _loaded(file: Any = None, *_: Any, **given: Any) -> None:
    _note("checkpoints_read", given.get("f", file))


def _saved(_: Any = None, file: Any = None, *more: Any, **given: Any) -> None:
    _note("checkpoints_written", given.get("f", file))


def _note(kind: Kind, file: Any) -> None:
    """Note a path, or the name of an open file; a buffer in memory has none."""
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    if isinstance(name, str | os.PathLike):
        LINEAGE.note(kind, os.path.abspath(os.fsdecode(name)))


def _iterated(loader: Any, *_: Any, **given: Any) -> None:
    with ignored(Exception):  # The dataset is the program's, and may be of any kind.
        LINEAGE.note("data", dataset_text(loader.dataset, getattr(loader, "batch_size", None)))


def dataset_text(dataset: Any, batch_size: int | None = None) -> str:
    """A dataset in words: the innermost one that others wrap, its size and its path."""
    inner = dataset
    for _ in range(_MOST_LEVELS):
        inner = getattr(inner, "dataset", inner)
    parts = [type(inner).__name__]
    with ignored(TypeError, NotImplementedError):
        parts.append(f"{len(dataset):,} samples")
    if batch_size is not None:
        parts.append(f"batches of {batch_size}")
    path = dataset_path(inner)
    return ", ".join([*parts, *([f"from {path}"] if path else [])])
