"""Writes a checkpoint in another format, bit by bit, with the names of the other framework."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

from sonde.compare.parameter_names import renamed
from sonde.compare.weights.checkpoint import Checkpoint, Weight, same_bits
from sonde.compare.weights.file_formats import Read, Write
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import replace_file_durably
from sonde.core.files.mindspore_ckpt import CheckpointError

Target = Literal["torch", "mindspore", "safetensors"]
Names = Literal["torch", "mindspore", "keep"]

DEFAULT_NAMES: dict[Target, Names] = {
    "torch": "torch",
    "mindspore": "mindspore",
    "safetensors": "keep",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The old and new name of each weight that was written, and the names that were omitted."""

    names: Mapping[str, str]
    dropped: tuple[str, ...]
    count: int

    @property
    def renamed(self) -> dict[str, str]:
        return {old: new for old, new in self.names.items() if old != new}


@dataclass(frozen=True, slots=True)
class Format:
    """The functions that write a format and read it back for verification."""

    write: Write
    read: Read


def new_names(
    source: Checkpoint,
    names: Names,
    *,
    keep_counters: bool = False,
    given: Mapping[str, str] | None = None,
) -> dict[str, str | None]:
    """The new name of each weight; None if the other framework does not have it.

    ``given`` takes precedence. UsageError if it has a name that is not in the checkpoint, or if two
    weights would have the same name.
    """
    found: dict[str, str | None] = {name: name for name in source.weights}
    if names != "keep":
        found = renamed(source.shapes, names, keep_counters=keep_counters)
    for old, new in (given or {}).items():
        if old not in found:
            raise UsageError(f"--map: {source.path} has no weight {old!r}", slug="usage")
        found[old] = new
    taken: dict[str, str] = {}
    for old, new_name in found.items():
        if new_name is not None and taken.setdefault(new_name, old) != old:
            raise UsageError(
                f"{taken[new_name]!r} and {old!r} would both be called {new_name!r}; "
                "choose other names with --map",
                slug="usage",
            )
    return found


def convert(
    source: Checkpoint,
    target: Path,
    format: Format,
    names: Mapping[str, str | None],
    *,
    replace_existing: bool = False,
) -> Conversion:
    """Write ``source`` to ``target``; the file appears complete and verified, or not at all.

    It is written under a temporary name, read back and compared bit by bit before it is renamed.
    """
    _refuse(source.path, target, replace_existing)
    kept = [
        replace(weight, name=new)
        for old, weight in source.weights.items()
        if (new := names[old]) is not None
    ]

    def write(stream: BinaryIO) -> None:
        format.write(stream, kept, source.texts)
        stream.flush()
        _verify(kept, source, format.read(Path(stream.name)), target)
        _refuse(source.path, target, replace_existing)

    try:
        replace_file_durably(target, write)
    except OSError as error:
        raise CheckpointError(
            f"{target} cannot be written: {error.strerror or error}", slug="checkpoint-path"
        ) from None
    return Conversion(
        {old: new for old, new in names.items() if new is not None},
        tuple(old for old, new in names.items() if new is None),
        len(kept),
    )


def _refuse(source: Path, target: Path, replace_existing: bool) -> None:
    if target.is_dir():
        raise CheckpointError(f"{target} is a directory, not a file name", slug="checkpoint-path")
    if not target.exists():
        return
    if source.exists() and os.path.samefile(source, target):
        raise UsageError(f"{target} is the file to be converted; name another file", slug="usage")
    if not replace_existing:
        raise UsageError(f"{target} exists; --force replaces it", slug="usage")


def _verify(kept: list[Weight], source: Checkpoint, written: Checkpoint, target: Path) -> None:
    for weight in kept:
        twin = written.weights.get(weight.name)
        if twin is None or not same_bits(weight, twin):
            raise CheckpointError(
                f"{target}: {weight.name!r} was not read back as it was written; the disk or the "
                "format failed",
                slug="checkpoint-damaged",
            )
    if len(written.weights) != len(kept) or dict(written.texts) != dict(source.texts):
        raise CheckpointError(
            f"{target}: it was read back with other names", slug="checkpoint-damaged"
        )
