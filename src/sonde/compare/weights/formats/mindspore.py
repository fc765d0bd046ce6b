"""Reads and writes MindSpore's ``.ckpt`` files as weights; `core.mindspore_ckpt` decodes them."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight, damaged, is_shape
from sonde.core.dtypes import BY_NAME, dtype_named
from sonde.core.errors import SondeError
from sonde.core.files.mindspore_ckpt import (
    BFloat16Array,
    CheckpointError,
    CheckpointValue,
    StoredValue,
    encode,
    scan,
)

_KIND = "MindSpore checkpoint"


def read_mindspore(path: Path) -> Checkpoint:
    """The weights and texts of ``path``; a CheckpointError names the position of the error."""
    with path.open("rb") as stream:
        try:
            memory = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:  # An empty file cannot be mapped.
            raise damaged(path, _KIND, "it is empty") from None
    stored = scan(memory, name=str(path))
    texts = {tag: str(entry.value(str(path))) for tag, entry in stored.items() if entry.is_text}
    weights = {tag: _weight(path, entry) for tag, entry in stored.items() if not entry.is_text}
    return Checkpoint(path, "mindspore", weights, texts)


def write_mindspore(
    stream: BinaryIO, weights: Iterable[Weight], texts: Mapping[str, str] | None = None
) -> None:
    """Write weights bit by bit, in their order, then texts.

    CheckpointError for an element type that the format does not have.
    """
    for weight in weights:
        encode({weight.name: _value(weight)}, stream)
    encode(dict(texts or {}), stream)


def _weight(path: Path, entry: StoredValue) -> Weight:
    try:
        dtype = dtype_named(entry.label).name
    except SondeError:
        raise CheckpointError(
            f"{path}: {entry.tag!r} has the element type {entry.label[:40]!r}, which is unknown",
            slug="checkpoint-dtype",
        ) from None
    size = sum(len(part) for part in entry.parts)
    if not is_shape(entry.shape) or prod(entry.shape) * BY_NAME[dtype].itemsize != size:
        raise damaged(
            path, _KIND, f"{entry.tag!r} has {size} bytes, other than {dtype}{list(entry.shape)}"
        )

    def load() -> NDArray[Any]:
        value = entry.value(str(path))
        assert not isinstance(value, str)
        return value.bits if isinstance(value, BFloat16Array) else value

    return Weight(entry.tag, dtype, entry.shape, load)


def _value(weight: Weight) -> CheckpointValue:
    bits = weight.bits()
    if weight.storage == "bfloat16":
        return BFloat16Array(bits.view(np.uint16))
    if weight.storage == "bool":
        return bits.view(np.bool_)
    if bits.dtype.name != weight.storage:
        raise CheckpointError(
            f"{weight.name}: a MindSpore checkpoint cannot hold {weight.storage}; "
            "use --to safetensors or --to torch",
            slug="checkpoint-dtype",
        )
    return bits
