"""What a rank gives to a collective and gets from it, as hashes and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
import torch.distributed as dist

from sonde.adapters.torch.ranks.communication.collective_signatures import Call
from sonde.adapters.torch.ranks.digests import plain, project, tensor_digest

_MOST_ELEMENTS: Final = 1 << 24
"""Of a tensor whose projections are computed, in double precision."""
_MOST_PARTS: Final = 64
"""Of what a rank gives to a reduce_scatter: each part has its own projections."""


def hashes(value: Any) -> tuple[int, ...]:
    """Of a tensor, or of each tensor in a list; without those that have no values to read."""
    tensors = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(
        tensor_digest(each)
        for each in tensors
        if isinstance(each, torch.Tensor) and plain(each) is not None
    )


def part_hashes(value: Any, sizes: Sequence[int] | None, parts: int) -> tuple[int, ...]:
    """Of the parts of a tensor along its first dimension, one for each rank; 0 for an empty one.
    ``sizes``: of the parts, None: all equal. Empty if the tensor cannot be divided so."""
    values = plain(value) if isinstance(value, torch.Tensor) else None
    if values is None or not values.dim():
        return ()
    if sizes is None:
        if values.shape[0] % parts:
            return ()
        sizes = [values.shape[0] // parts] * parts
    if len(sizes) != parts or sum(sizes) != values.shape[0]:
        return ()
    return tuple(tensor_digest(each) for each in torch.split(values, list(sizes)))


def sums(value: Any) -> tuple[float, ...]:
    """The projections of a floating-point tensor, then its norm; empty of others. They are exact
    enough to be compared with those of a sum over ranks."""
    values = plain(value) if isinstance(value, torch.Tensor) else None
    if values is None or not values.is_floating_point() or values.numel() > _MOST_ELEMENTS:
        return ()
    exact = values.double()
    return (*project(exact).tolist(), float(exact.norm()))


def given_hashes(call: Call) -> tuple[int, ...]:
    """Of what a rank gives, by the rank that it is for where that matters. The parts of a reduction
    are no hash: their sums count."""
    if call.signature.kind == "all_to_all" and call.signature.sizes is not None:
        return _divided(call, call.given, 0)
    if call.signature.kind.startswith("reduce_scatter"):
        return ()
    return _of_all(call.given)


def got_hashes(call: Call) -> tuple[int, ...]:
    """Of what a rank has got, by the rank that gave it where that matters."""
    value = call.got
    if call.signature.kind == "all_to_all" and call.signature.sizes is not None:
        return _divided(call, value, 1)
    if call.signature.kind == "all_gather_into_tensor":
        return hashes(list(value.reshape(_size(call), *call.given.shape)))
    return _of_all(value)


def given_sums(call: Call) -> tuple[float, ...]:
    """The sums of what a rank gives to a reduction, part by part; empty of other collectives."""
    if call.signature.reduce is None:
        return ()
    if not call.signature.kind.startswith("reduce_scatter"):
        return sums(call.given)
    parts = _parts(call)
    found = [sums(each) for each in parts] if len(parts) <= _MOST_PARTS else []
    return tuple(value for each in found for value in each) if all(found) else ()


def got_sums(call: Call) -> tuple[float, ...]:
    """The sums of what a rank has got from a reduction."""
    has_result = call.signature.kind != "reduce" or call.root == dist.get_rank()
    return sums(call.got) if call.signature.reduce is not None and has_result else ()


def _parts(call: Call) -> list[Any]:
    """What a rank gives to a reduce_scatter, by the rank that gets it."""
    given = call.given
    if isinstance(given, (list, tuple)):
        return list(given)
    values = plain(given) if isinstance(given, torch.Tensor) else None
    size = _size(call)
    if values is None or values.numel() % size:
        return []
    return list(values.contiguous().reshape(size, -1))


def _of_all(value: Any) -> tuple[int, ...]:
    """Of the tensors in a list, 0 for an empty one, so that each keeps its place."""
    if isinstance(value, (list, tuple)):
        return tuple(tensor_digest(each) for each in value)
    return hashes(value)


def _divided(call: Call, value: Any, number: int) -> tuple[int, ...]:
    assert call.signature.sizes is not None
    return part_hashes(value, call.argument(call.signature.sizes[number]), _size(call))


def _size(call: Call) -> int:
    return dist.get_world_size(call.group)
