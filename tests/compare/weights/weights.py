"""Weights of every element type, awkward values among them, and files of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight

CHECKPOINTS = Path(__file__).parents[2] / "train" / "data"
DUMPS = Path(__file__).parents[2] / "dump" / "data"


def weight(name: str, array: NDArray[Any], dtype: str | None = None) -> Weight:
    return Weight(name, dtype or array.dtype.name, array.shape, lambda: array)


def checkpoint(arrays: Mapping[str, NDArray[Any]], name: str = "made") -> Checkpoint:
    return Checkpoint(
        Path(name), "numpy", {key: weight(key, array) for key, array in arrays.items()}
    )


def awkward() -> dict[str, Weight]:
    """One weight of each type: signalling NaNs, negative zero, subnormals, infinities, empties."""
    floats = {
        "float16": np.array([0x7C01, 0xFE55, 0x8000, 0x0001, 0xFC00, 0x3C00], np.uint16),
        "float32": np.array([0x7F800001, 0xFFC12345, 0x80000000, 1, 0xFF800000], np.uint32),
        "float64": np.array([0x7FF0000000000001, 0x8000000000000000, 1], np.uint64),
    }
    found = {name: weight(name, bits.view(name)) for name, bits in floats.items()}
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(name)
        found[name] = weight(name, np.array([limits.min, limits.max, 0], name))
    found["bool"] = weight("bool", np.array([True, False, True]))
    found["bfloat16"] = weight(
        "bfloat16", np.array([[0x7F81, 0xFFC1], [0x8000, 1]], np.uint16), "bfloat16"
    )
    found["scalar"] = weight("scalar", np.array(-0.0, np.float32))
    found["empty"] = weight("empty", np.zeros((0, 3), np.float32))
    found["strided"] = weight("strided", np.arange(12, dtype=np.float32).reshape(3, 4).T)
    return found


def eighths() -> dict[str, Weight]:
    """All 256 values of the eight-bit types."""
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    names = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    return {name: weight(name, every, name) for name in (*names, "float8_e8m0fnu")}
