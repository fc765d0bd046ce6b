"""The formats of checkpoint files: their suffixes, and the functions that read and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sonde.compare.weights.checkpoint import Checkpoint, Format, Weight
from sonde.compare.weights.formats.mindspore import read_mindspore, write_mindspore
from sonde.compare.weights.formats.npz import read_npz
from sonde.compare.weights.formats.safetensors import read_safetensors, write_safetensors

Read = Callable[[Path], Checkpoint]
Write = Callable[[BinaryIO, Iterable[Weight], Mapping[str, str] | None], None]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The suffixes and the functions of one format.

    ``trained`` are the suffixes of the files that `sonde.train` saves and loads; the first, without
    its dot, is the name of the format there. ``read`` and ``write`` are None for torch's own files:
    their functions need torch, and the caller has them. No function writes ``.npz`` files.
    """

    suffixes: tuple[str, ...]
    trained: tuple[str, ...] = ()
    read: Read | None = None
    write: Write | None = None


FILE_FORMATS: dict[Format, FileFormat] = {
    "mindspore": FileFormat((".ckpt",), (".ckpt",), read_mindspore, write_mindspore),
    "safetensors": FileFormat(
        (".safetensors",), (".safetensors",), read_safetensors, write_safetensors
    ),
    "torch": FileFormat((".pt", ".pth", ".bin"), (".pt", ".pth")),
    "numpy": FileFormat((".npz",), read=read_npz),
}

SUFFIXES: dict[str, Format] = {
    suffix: name for name, each in FILE_FORMATS.items() for suffix in each.suffixes
}

PREFERENCE = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz")
"""Of several files in a directory, the one whose suffix comes first is read."""
