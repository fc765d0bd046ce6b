"""Opens a checkpoint file or directory; the first bytes and the name decide on the format."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from sonde.compare.weights.checkpoint import Checkpoint, Format, Weight
from sonde.compare.weights.file_formats import FILE_FORMATS, PREFERENCE, SUFFIXES, Read
from sonde.compare.weights.formats.dump import read_dump
from sonde.core.files.mindspore_ckpt import CheckpointError

MAX_INDEX_BYTES = 64 << 20


def open_checkpoint(path: Path, read_torch: Read, *, step: int | None = None) -> Checkpoint:
    """The weights of a checkpoint file, or of the files or the dump in a directory.

    ``read_torch`` reads torch's own files, which needs torch. ``step`` is for dumps: the first
    by default. A CheckpointError or DumpError names the file and the position of the error.
    """
    if path.is_dir():
        inside = files_inside(path)
        if inside:
            return _joined(path, [open_checkpoint(each, read_torch) for each in inside])
        return read_dump(path, step=step)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist", slug="checkpoint-missing")
    if not path.is_file():  # Reading a pipe or a device might never end.
        raise CheckpointError(f"{path} is not a file", slug="checkpoint-missing")
    try:
        return (FILE_FORMATS[detect(path)].read or read_torch)(path)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror or error}", slug="checkpoint-missing"
        ) from None


def files_inside(directory: Path) -> list[Path]:
    """The checkpoint in a model's directory: its only file, or the shards that its index lists.

    Empty for a directory without a checkpoint, such as a dump. Subdirectories are not searched.
    """
    if any(directory.glob("rank_*")):
        return []
    for index in sorted(directory.glob("*.index.json")):
        try:
            with index.open("rb") as stream:
                content = json.loads(stream.read(min(index.stat().st_size, MAX_INDEX_BYTES)))
            names = sorted({str(name) for name in content["weight_map"].values()})
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise CheckpointError(
                f"{index} is not the index of a checkpoint", slug="checkpoint-damaged"
            ) from None
        for name in names:
            if Path(name).name != name or not os.path.isfile(directory / name):
                raise CheckpointError(
                    f"{index} names {name[:200]!r}, which is not in {directory}",
                    slug="checkpoint-missing",
                )
        return [directory / name for name in names]
    for suffix in PREFERENCE:
        found = sorted(path for path in directory.glob(f"*{suffix}") if path.is_file())
        if len(found) == 1:
            return found
        if found:
            names = sorted(path.name for path in found)
            raise CheckpointError(
                f"{directory} contains {len(found)} checkpoints: {', '.join(names[:5])}; give one",
                slug="checkpoint-path",
            )
    return []


def _joined(directory: Path, parts: list[Checkpoint]) -> Checkpoint:
    weights: dict[str, Weight] = {}
    texts: dict[str, str] = {}
    for part in parts:
        for name in part.weights.keys() & weights.keys():
            raise CheckpointError(
                f"{part.path}: {name!r} is in another shard, too", slug="checkpoint-damaged"
            )
        weights |= part.weights
        texts |= part.texts
    return Checkpoint(directory, parts[0].format, weights, texts)


def detect(path: Path) -> Format:
    """The format of a file; ``.ckpt`` may be MindSpore's, or torch's as written by Lightning."""
    with path.open("rb") as stream:
        start = stream.read(9)
    if start.startswith(b"PK\x03\x04"):
        return "numpy" if _holds_arrays(path) else "torch"
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "torch"  # torch's format before version 1.6: pickles
    by_name = SUFFIXES.get(path.suffix.lower())
    if by_name in (None, "torch") and start[8:9] == b"{":
        return "safetensors"
    if by_name is None:
        raise CheckpointError(
            f"{path} is not a known checkpoint: neither its name ({', '.join(SUFFIXES)}) nor its "
            "first bytes show a format",
            slug="checkpoint-format",
        )
    return by_name


def _holds_arrays(path: Path) -> bool:
    if SUFFIXES.get(path.suffix.lower()) == "numpy":
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
