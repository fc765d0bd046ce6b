"""The directory of a captured step: its name, its files, and how steps are listed.

``sonde_steps/step_412.rank_0/`` has a manifest, files of tensors and, where the network could be
pickled, a pickle. A directory with such a name is whole: it is written under a hidden name, which
``write_directory`` renames when every file is on the disk.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from sonde.core.files.atomic_file import partial_path, remove_stale_partials
from sonde.core.files.directories import make_directory
from sonde.dump.layout import parse_captured_step
from sonde.replay.errors import ReplayError

DEFAULT_DIRECTORY: Final = "sonde_steps"
MANIFEST: Final = "manifest.json"
MODULES: Final = "modules.pickle"
OBJECTS: Final = "objects.pickle"
TensorFile = Literal["weights", "buffers", "inputs", "gradients", "results", "random", "optimizer"]
TENSOR_FILES: Final[tuple[TensorFile, ...]] = get_args(TensorFile)
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class StepPlace:
    """One captured step on disk; ``repetition`` counts captures of one step number from 0."""

    step: int
    rank: int
    repetition: int
    path: Path


def tensor_file(name: TensorFile) -> str:
    """The file name of a group of tensors."""
    return f"{name}.safetensors"


def step_name(step: int, rank: int, repetition: int = 0) -> str:
    """``step_412.rank_0``; a second capture of that step is ``step_412.rank_0.1``."""
    return f"step_{step}.rank_{rank}" + (f".{repetition}" if repetition else "")


def place_of(path: Path) -> StepPlace | None:
    """What the name of a directory says; None if it is not the name of a captured step."""
    found = parse_captured_step(path.name)
    return None if found is None else StepPlace(*found, path)


def captured_steps(directory: Path) -> list[StepPlace]:
    """The captured steps in ``directory``, by step, rank and repetition; empty if it is missing."""
    try:
        with os.scandir(directory) as entries:
            paths = [Path(entry.path) for entry in entries]
    except OSError:
        return []
    places = [place for path in paths if (place := place_of(path)) is not None]
    return sorted(place for place in places if (place.path / MANIFEST).is_file())


def find_step(path: Path) -> Path:
    """The captured step that a user names: its directory, or the only step in a directory."""
    if (path / MANIFEST).is_file():
        return path
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise ReplayError(f"{path} {what}; give the directory of a captured step", slug="step-none")
    places = captured_steps(path)
    if len(places) == 1:
        return find_step(places[0].path)
    if not places:
        raise ReplayError(
            f"{path} is not a captured step: it has no {MANIFEST}, and no directory step_N.rank_R",
            slug="step-none",
        )
    names = ", ".join(place.path.name for place in places[:_SHOWN])
    more = "" if len(places) <= _SHOWN else f" and {len(places) - _SHOWN} more"
    raise ReplayError(
        f"{path} has {len(places)} captured steps; give one of them: {names}{more}",
        slug="step-which",
    )


def write_directory(
    directory: Path, step: int, rank: int, write: Callable[[Path], None]
) -> StepPlace:
    """Let ``write`` fill a hidden directory with files, and rename it; returns its final place.

    A process killed at any moment leaves a whole step or none. If ``write`` or the disk fails,
    nothing stays and the OSError is passed on. The files are on the disk before the name is.
    """
    make_directory(directory)
    remove_stale_partials(directory, "step_")
    hidden = partial_path(directory / step_name(step, rank))
    hidden.mkdir()
    try:
        write(hidden)
        for path in (*hidden.iterdir(), hidden):
            _flush(path)
        place = _rename(hidden, directory, step, rank)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    _flush(directory)
    return place


def _rename(hidden: Path, directory: Path, step: int, rank: int) -> StepPlace:
    """Rename to the first free name; of two processes that want one name each gets its own."""
    repetition = 0
    while True:
        path = directory / step_name(step, rank, repetition)
        try:
            os.rename(hidden, path)  # replaces an empty directory, never one with files
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            repetition += 1
        else:
            return StepPlace(step, rank, repetition, path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
