"""A hash of the tensors that a step was given: the same batch has the same hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import xxhash

from sonde.adapters.torch import private
from sonde.adapters.torch.tensors.unusual_layouts import local_part

_WHOLE_BYTES = 1 << 20
_CHUNKS = 64
_CHUNK_BYTES = 4096


def batch_hash(inputs: Iterable[Any]) -> int:
    """A 64-bit hash of the tensors in ``inputs`` (tensors, or lists, tuples and dictionaries of
    them): of shape, dtype and bytes. Of a tensor larger than 1 MiB, 64 pieces of 4 KiB that are
    evenly spaced count. 0 if there is no tensor."""
    found = xxhash.xxh3_64()
    count = 0
    for tensor in _tensors(inputs, 0):
        if not private.is_in_mode():
            count += _add(tensor, found)
            continue
        with private.hidden_from_modes():
            count += _add(tensor, found)
    return found.intdigest() if count else 0


def _add(tensor: torch.Tensor, found: xxhash.xxh3_64) -> bool:
    """Add a tensor to the hash; False if it has no bytes of its own."""
    plain = local_part(tensor).detach()
    if plain.layout is not torch.strided or plain.device.type == "meta" or plain.is_nested:
        return False
    found.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
    for part in _parts(plain):
        data: Any = part.contiguous().view(torch.uint8).cpu().numpy()
        found.update(data)
    return True


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The values that count, as flat tensors."""
    flat = tensor.reshape(-1) if tensor.is_contiguous() else None
    if flat is None:
        # A copy of an unusual layout is made only of what is small.
        if tensor.numel() * tensor.element_size() > _WHOLE_BYTES:
            tensor = tensor[:1]
        flat = tensor.contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    if not flat.numel():
        return
    size = flat.element_size()
    if flat.numel() * size <= _WHOLE_BYTES:
        yield flat
        return
    length = _CHUNK_BYTES // size
    last = flat.numel() - length
    for number in range(_CHUNKS):
        start = last * number // (_CHUNKS - 1)
        yield flat[start : start + length]


def _tensors(inputs: Iterable[Any], depth: int) -> Iterator[torch.Tensor]:
    for each in inputs:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)) and depth < 4:
            yield from _tensors(each, depth + 1)
        elif isinstance(each, dict) and depth < 4:
            yield from _tensors(each.values(), depth + 1)
