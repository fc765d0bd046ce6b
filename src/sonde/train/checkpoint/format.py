"""Reads and writes the three checkpoint formats, as a flat dict of tensors and texts by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Weight
from sonde.compare.weights.file_formats import FILE_FORMATS
from sonde.compare.weights.formats.safetensors import write_safetensors
from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import (
    BFloat16Array,
    CheckpointError,
    CheckpointValue,
    decode,
    encode,
)

Entries = dict[str, torch.Tensor | str]

SUFFIXES = {
    suffix: each.trained[0].removeprefix(".")
    for each in FILE_FORMATS.values()
    for suffix in each.trained
}
"""The suffixes of checkpoints, and the names of their formats."""
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))

# The keys under which other trainers store the weights in their .pt files.
_WEIGHT_KEYS = ("state_dict", "model_state_dict", "model")


def write_entries(stream: BinaryIO, kind: str, entries: Entries, *, crc: bool = False) -> None:
    """Write ``entries`` (CPU tensors and texts) to ``stream`` in the format ``kind``."""
    if kind == "ckpt":
        values = {name: _to_value(name, value) for name, value in entries.items()}
        encode(values, stream, crc=crc)
    elif kind == "safetensors":
        _write_safetensors(stream, entries)
    else:
        # torch.save writes whole storages, so a view into a large one is copied first.
        torch.save({name: _compact(value) for name, value in entries.items()}, stream)


def read_entries(path: Path) -> Entries:
    """Everything in a checkpoint; the tensors are on the CPU and own their memory."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise CheckpointError(
            f"{path}: a checkpoint ends in {', '.join(SUFFIXES)}", slug="checkpoint-format"
        )
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist", slug="checkpoint-missing")
    if kind == "ckpt":
        with path.open("rb") as stream:
            values = decode(stream, name=str(path))
        return {name: _from_value(value) for name, value in values.items()}
    return _read_safetensors(path) if kind == "safetensors" else _read_torch(path)


def _to_value(name: str, value: torch.Tensor | str) -> CheckpointValue:
    if isinstance(value, str):
        return value
    tensor = value.resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return BFloat16Array(tensor.contiguous().view(torch.int16).numpy().view(np.uint16))
    try:
        return np.asarray(tensor.numpy())
    except (TypeError, RuntimeError):
        raise CheckpointError(
            f"{name}: a MindSpore checkpoint cannot hold {tensor.dtype} ({tensor.layout}); "
            "save as .safetensors or .pt instead",
            slug="checkpoint-dtype",
        ) from None


def _from_value(value: CheckpointValue) -> torch.Tensor | str:
    if isinstance(value, str):
        return value
    if isinstance(value, BFloat16Array):
        return torch.from_numpy(value.bits.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def _compact(value: torch.Tensor | str) -> torch.Tensor | str:
    if isinstance(value, str) or value.layout != torch.strided:
        return value
    whole = value.untyped_storage().nbytes()
    return value.clone() if whole > value.numel() * value.element_size() else value


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise UsageError(
            "safetensors files need the package safetensors: pip install safetensors",
            slug="missing-safetensors",
        ) from None
    return safetensors


def _write_safetensors(stream: BinaryIO, entries: Entries) -> None:
    """Write the tensors one after the other.

    The library's ``save_file`` writes to a temporary file of its own, which stays there when the
    process is killed.
    """
    weights = [
        weight_of(name, value) for name, value in entries.items() if not isinstance(value, str)
    ]
    texts = {name: value for name, value in entries.items() if isinstance(value, str)}
    write_safetensors(stream, weights, texts)


def weight_of(name: str, tensor: torch.Tensor, *, trainable: bool | None = None) -> Weight:
    """A tensor as the code that compares and lists weights sees it; it is read on demand."""

    def load() -> NDArray[Any]:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        try:
            return np.asarray(plain.numpy())
        except TypeError:  # a type that numpy lacks, of one or two bytes
            bits = torch.uint8 if plain.element_size() == 1 else torch.int16
            return np.asarray(plain.view(bits).numpy())

    if tensor.layout != torch.strided:
        raise CheckpointError(
            f"{name}: a safetensors file cannot hold {tensor.layout} tensors; save as .pt instead",
            slug="checkpoint-dtype",
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Weight(name, dtype, tuple(tensor.shape), load, trainable)


def _read_safetensors(path: Path) -> Entries:
    library = _safetensors()
    try:
        with library.safe_open(path, framework="pt") as file:
            entries: Entries = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            texts = file.metadata() or {}
    except library.SafetensorError as error:
        raise _damaged(path, "safetensors file", error) from error
    return entries | {name: text for name, text in texts.items() if name != "format"}


def _read_torch(path: Path) -> Entries:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise any exception
        raise _damaged(path, "file of tensors only", error) from error
    for key in _WEIGHT_KEYS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor | str)
        for name, value in loaded.items()
    ):
        raise CheckpointError(
            f"{path} is not a flat dict of tensors by name (a state_dict)", slug="checkpoint-format"
        )
    return dict(loaded)


def _damaged(path: Path, expected: str, error: Exception) -> CheckpointError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CheckpointError(
        f"{path} is damaged or not a {expected}: {reason}", slug="checkpoint-damaged"
    )
