"""Writes tensors into the safetensors files of a captured step, and reads them as they were.

Kept are bits, dtype, strides, memory shared between tensors, and whether a tensor is a parameter
and requires a gradient. Only dense tensors: see ``values`` for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sonde.adapters.torch.replay.storage.environment import has_device
from sonde.compare.weights.checkpoint import Weight
from sonde.compare.weights.formats.safetensors import NAMES, read_safetensors, write_safetensors
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import SondeError
from sonde.core.files.atomic_file import open_new
from sonde.kernels.low_precision import storage_of
from sonde.replay.errors import ReplayError
from sonde.replay.layout import TENSOR_FILES, TensorFile, tensor_file
from sonde.replay.tensor_table import ALIGNMENT, CapturedTensor

Weights = dict[TensorFile, list[Weight]]
"""What is written to each file."""

_NATIVE = frozenset(NAMES.values())


def is_storable(tensor: torch.Tensor) -> bool:
    """Whether a tensor is dense, of a known element type, and not of a class of its own."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and tensor.device.type != "meta"
        and _name(tensor.dtype) in BY_NAME
    )


@dataclass(slots=True)
class TensorWriter:
    """Collects tensors, then writes them; the same tensor object is written once."""

    _tensors: list[torch.Tensor] = field(default_factory=list)
    _places: list[tuple[TensorFile, str]] = field(default_factory=list)
    _indices: dict[int, int] = field(default_factory=dict)
    _keys: set[tuple[TensorFile, str]] = field(default_factory=set)

    def add(self, tensor: torch.Tensor, file: TensorFile, name: str) -> int:
        """The index of a tensor in the table; ``name`` is its key unless that is taken."""
        known = self._indices.get(id(tensor))
        if known is not None:
            return known
        index = self._indices[id(tensor)] = len(self._tensors)
        key = name
        while (file, key) in self._keys or key == "__metadata__":
            key = f"{name}#{index}"
        self._keys.add((file, key))
        self._tensors.append(tensor)  # the reference keeps the id from being used again
        self._places.append((file, key))
        return index

    def collected(self) -> tuple[list[CapturedTensor], Weights]:
        """The table, and what goes to each file: the memory of the tensors, not copies."""
        table: list[CapturedTensor | None] = [None] * len(self._tensors)
        weights: Weights = {}
        for group in _memory_groups(self._tensors):
            entries, file, weight = _store(
                [self._tensors[index] for index in group], [self._places[index] for index in group]
            )
            weights.setdefault(file, []).append(weight)
            for index, entry in zip(group, entries, strict=True):
                table[index] = entry
        return [entry for entry in table if entry is not None], weights


def write_tensors(directory: Path, weights: Weights) -> None:
    """Write the files that have tensors."""
    for name in TENSOR_FILES:
        if name in weights:
            with open_new(directory / tensor_file(name)) as stream:
                write_safetensors(stream, weights[name])


def read_tensors(directory: Path, table: Sequence[CapturedTensor]) -> list[torch.Tensor]:
    """The tensors of a table, with memory of their own; ReplayError for a damaged file.

    A tensor of a device that this machine lacks is on the CPU.
    """
    files = {entry.file for entry in table}
    contents = {file: _open(directory / tensor_file(file)) for file in files}
    memories: dict[tuple[str, str, str], torch.Tensor] = {}
    found = []
    for number, entry in enumerate(table):
        weight = contents[entry.file].get(entry.key)
        if weight is None:
            raise _damaged(directory, number, f"{tensor_file(entry.file)} has no {entry.key!r}")
        if (problem := entry.problem(weight.nbytes)) is not None:
            raise _damaged(directory, number, f"{entry.key!r}: {problem}")
        place = (entry.file, entry.key, entry.device)
        if place not in memories:
            memories[place] = _memory(weight, entry)
        found.append(_tensor(memories[place], entry))
    return found


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _memory_groups(tensors: Sequence[torch.Tensor]) -> Iterable[list[int]]:
    """Indices of tensors whose memory overlaps, together; each tensor is in one group."""
    spans: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for index, tensor in enumerate(tensors):
        start = tensor.data_ptr()
        stop = start + _extent(tensor)
        owner = tensor.untyped_storage().data_ptr() if stop > start else -1 - index
        spans.setdefault((str(tensor.device), owner), []).append((start, stop, index))
    for members in spans.values():
        group: list[int] = []
        end = -1
        for start, stop, index in sorted(members):
            if group and start >= end:
                yield group
                group = []
            group.append(index)
            end = max(end, stop)
        yield group


def _extent(tensor: torch.Tensor) -> int:
    """The bytes from the first element to the end of the last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _store(
    tensors: Sequence[torch.Tensor], places: Sequence[tuple[TensorFile, str]]
) -> tuple[list[CapturedTensor], TensorFile, Weight]:
    """The entries of tensors that share memory, and what is written for them, in which file.

    If one of them is contiguous and has all of the memory, it is written by its own name, with its
    dtype and shape; the others are views of it. Otherwise the memory is written as bytes.
    """
    plain = [tensor.detach().resolve_conj().resolve_neg() for tensor in tensors]
    start = min(tensor.data_ptr() for tensor in plain)
    size = max(each.data_ptr() + _extent(each) for each in plain) - start
    whole = next(
        (number for number, each in enumerate(plain) if _is_whole(each, start, size)), None
    )
    file, key = places[whole or 0]
    first = plain[whole or 0]
    alignment = start % ALIGNMENT if size else 0
    alignment -= alignment % max(tensor.element_size() for tensor in plain)
    entries = [
        CapturedTensor(
            file=file,
            key=key,
            dtype=_name(copy.dtype),
            shape=list(copy.shape),
            strides=_unusual_strides(copy),
            offset=copy.data_ptr() - start if copy.numel() else 0,
            alignment=alignment,
            device=str(tensor.device),
            requires_grad=tensor.requires_grad,
            is_parameter=isinstance(tensor, nn.Parameter),
        )
        for tensor, copy in zip(tensors, plain, strict=True)
    ]
    if whole is None:
        return entries, file, Weight(key, "uint8", (size,), lambda: _bytes(first, start, size))
    dtype = _name(first.dtype)
    return entries, file, Weight(key, dtype, tuple(first.shape), lambda: _bits(first, dtype))


def _is_whole(tensor: torch.Tensor, start: int, size: int) -> bool:
    is_all = tensor.data_ptr() == start and _extent(tensor) == size
    return is_all and tensor.is_contiguous() and _name(tensor.dtype) in _NATIVE


def _unusual_strides(tensor: torch.Tensor) -> list[int] | None:
    strides = tensor.stride()
    return None if strides == contiguous_strides(tensor.shape) else list(strides)


def _bits(tensor: torch.Tensor, dtype: str) -> NDArray[Any]:
    if not tensor.numel():  # it may have strides that cannot be viewed as bytes
        return np.empty(tensor.shape, storage_of(dtype))
    # One element of a contiguous tensor may have any stride; a new view has the usual one.
    flat = torch.as_strided(tensor.cpu(), (tensor.numel(),), (1,))
    raw = flat.view(torch.uint8).numpy()
    return raw.view(storage_of(dtype)).reshape(tensor.shape)


def _bytes(tensor: torch.Tensor, start: int, size: int) -> NDArray[Any]:
    """``size`` bytes of the memory of a tensor from the address ``start``."""
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    begin = start - storage.data_ptr() if size else 0
    return np.asarray(whole[begin : begin + size].cpu().numpy())


def _open(path: Path) -> dict[str, Weight]:
    try:
        return dict(read_safetensors(path).weights)
    except FileNotFoundError:
        raise ReplayError(
            f"{path} is missing; the captured step is incomplete", slug="step-damaged"
        ) from None
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}", slug="step-damaged") from None
    except SondeError as error:
        raise ReplayError(error.message, slug="step-damaged") from None


def _memory(weight: Weight, entry: CapturedTensor) -> torch.Tensor:
    """The bytes of a file entry in new memory, at the same place within 64 bytes as before."""
    size = weight.nbytes
    whole = torch.empty(size + entry.alignment, dtype=torch.uint8)
    memory = whole[entry.alignment :]
    if size:
        memory.numpy()[:] = weight.bits().reshape(-1).view(np.uint8)
    return memory if entry.device == "cpu" else memory.to(_device(entry.device))


def _device(name: str) -> torch.device:
    """The device of that name; the CPU if this machine lacks it."""
    return torch.device(name if has_device(name) else "cpu")


def _tensor(memory: torch.Tensor, entry: CapturedTensor) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, entry.dtype)
    itemsize = BY_NAME[entry.dtype].itemsize
    first = (memory.storage_offset() + entry.offset) // itemsize
    shape = tuple(entry.shape)
    strides = contiguous_strides(shape) if entry.strides is None else tuple(entry.strides)
    tensor = torch.empty(0, dtype=dtype, device=memory.device)
    tensor.set_(memory.untyped_storage(), first, shape, strides)
    if entry.is_parameter:
        return nn.Parameter(tensor, requires_grad=entry.requires_grad)
    can_require = tensor.is_floating_point() or tensor.is_complex()
    return tensor.requires_grad_(entry.requires_grad and can_require)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, as torch counts them."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _damaged(directory: Path, number: int, reason: str) -> ReplayError:
    return ReplayError(f"{directory} is damaged: tensor {number}: {reason}", slug="step-damaged")
