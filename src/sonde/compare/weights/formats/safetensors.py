"""Reads and writes safetensors files with numpy alone.

The format: eight bytes of length (little-endian), a JSON object ``name: {dtype, shape,
data_offsets}``, then the elements. The file is mapped; all numbers of the header are checked
against the size of the file first: the tensors must follow each other without a gap and end where
the file ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight, damaged, is_shape
from sonde.core.dtypes import BY_NAME
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.kernels.low_precision import storage_of

MAX_HEADER_BYTES = 100_000_000
_KIND = "safetensors file"
_METADATA = "__metadata__"

NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
_LABELS = {name: label for label, name in NAMES.items()}


def read_safetensors(path: Path) -> Checkpoint:
    """The weights of ``path``; a CheckpointError names the position of the error."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise damaged(path, _KIND, f"byte 0: a header of {length} bytes in a file of {size}")
        content = _parse(path, stream.read(length))
    start = 8 + length
    texts = _texts(path, content.pop(_METADATA, {}))
    memory = _mapped(path, size)
    spans = {name: _span(path, name, entry, size - start) for name, entry in content.items()}
    _refuse_gaps(path, spans.values(), size - start)
    weights = {
        name: Weight(name, dtype, shape, partial(_load, memory[start:], dtype, shape, begin, end))
        for name, (dtype, shape, begin, end) in spans.items()
    }
    return Checkpoint(path, "safetensors", weights, texts)


def write_safetensors(
    stream: BinaryIO, weights: Iterable[Weight], texts: Mapping[str, str] | None = None
) -> None:
    """Write weights bit by bit, the largest element types first so that all are aligned."""
    ordered = sorted(weights, key=lambda weight: (-BY_NAME[weight.storage].itemsize, weight.name))
    header: dict[str, Any] = {_METADATA: {"format": "pt", **(texts or {})}}
    offset = 0
    for weight in ordered:
        label = _LABELS.get(weight.storage)
        if label is None:
            raise CheckpointError(
                f"{weight.name}: a safetensors file cannot hold {weight.storage}; write a "
                ".pt file instead",
                slug="checkpoint-dtype",
            )
        stop = offset + weight.count * BY_NAME[weight.storage].itemsize
        header[weight.name] = {
            "dtype": label,
            "shape": list(weight.shape),
            "data_offsets": [offset, stop],
        }
        offset = stop
    data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    data += b" " * (-len(data) % 8)
    stream.write(len(data).to_bytes(8, "little") + data)
    for weight in ordered:
        stream.write(weight.bits().reshape(-1).view(np.uint8).data)


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name occurs twice")
        return found

    try:
        content = json.loads(data, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise damaged(path, _KIND, f"byte 8: the header is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise damaged(path, _KIND, "byte 8: the header is not a JSON object")
    return content


def _texts(path: Path, texts: Any) -> dict[str, str]:
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise damaged(path, _KIND, f"byte 8: {_METADATA} has values that are not texts")
    return {name: text for name, text in texts.items() if name != "format"}


def _span(path: Path, name: str, entry: Any, size: int) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape, begin and end of one tensor, checked for consistency and against the file."""
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    label, shape, offsets = (fields.get(key, 0) for key in ("dtype", "shape", "data_offsets"))
    if not (is_shape(shape) and is_shape(offsets) and len(offsets) == 2):
        raise damaged(path, _KIND, f"{name!r} has no shape or no data_offsets")
    dtype = NAMES.get(label) if isinstance(label, str) else None
    if dtype is None:
        raise CheckpointError(
            f"{path}: {name!r} has the element type {str(label)[:40]!r}, which is unknown",
            slug="checkpoint-dtype",
        )
    begin, end = offsets
    needed = prod(shape) * BY_NAME[dtype].itemsize
    if end > size or end - begin != needed:
        raise damaged(
            path,
            _KIND,
            f"{name!r} claims bytes {begin} to {end} of {size}; {dtype}{shape} has {needed}",
        )
    return dtype, tuple(shape), begin, end


def _refuse_gaps(
    path: Path, spans: Iterable[tuple[str, tuple[int, ...], int, int]], size: int
) -> None:
    position = 0
    for begin, end in sorted((begin, end) for _, _, begin, end in spans):
        if begin != position:
            raise damaged(
                path, _KIND, f"a tensor begins at {begin}, the one before ends at {position}"
            )
        position = end
    if position != size:
        raise damaged(path, _KIND, f"the tensors end at {position}, the file's data at {size}")


def _mapped(path: Path, size: int) -> NDArray[np.uint8]:
    try:
        return np.asarray(np.memmap(path, np.uint8, "r", 0, (size,)))
    except (OSError, ValueError) as error:
        raise damaged(path, _KIND, f"it cannot be mapped: {error}") from None


def _load(
    data: NDArray[np.uint8], dtype: str, shape: tuple[int, ...], begin: int, end: int
) -> NDArray[Any]:
    code = np.dtype(storage_of(dtype)).newbyteorder("<")
    array = data[begin:end].view(code).reshape(shape)
    # Other writers do not align; the kernels read whole elements.
    return array if array.flags.aligned else array.copy()
