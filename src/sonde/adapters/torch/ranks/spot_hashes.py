"""Hashes of a few elements of each parameter, cheap enough for every step.

They cost one copy to the CPU for each dtype, however large the parameters are. A fault that makes
ranks differ changes whole tensors: a step of the optimizer that the others do not take, another
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
import xxhash

from sonde.adapters.torch.ranks.digests import plain
from sonde.ranks.between_samples import thinned
from sonde.ranks.report import SpotDigests

_ELEMENTS: Final = 64


@dataclass(slots=True, eq=False)
class SpotHashes:
    """Of the steps since the last `take`. Used from the training thread."""

    _kept: list[SpotDigests] = field(default_factory=list)

    def add(self, step: int, parameters: Sequence[torch.Tensor | None]) -> None:
        """A step has ended: hash elements of ``parameters``, None for one that is gone."""
        digests = np.array(spot_digests(parameters), "<u8").tobytes()
        self._kept = thinned([*self._kept, SpotDigests(step, digests)])

    def take(self) -> tuple[SpotDigests, ...]:
        """What was kept; forgets it."""
        found, self._kept = tuple(self._kept), []
        return found


def spot_digests(tensors: Sequence[torch.Tensor | None]) -> list[int]:
    """For each tensor a 64-bit hash of at most 64 elements that are evenly spread over it; 0 if
    there are no values to read."""
    pieces: dict[tuple[torch.device, torch.dtype], list[tuple[int, torch.Tensor]]] = {}
    for number, tensor in enumerate(tensors):
        values = None if tensor is None else plain(tensor)
        if values is not None:
            pieces.setdefault((values.device, values.dtype), []).append((number, _spots(values)))
    found = [0] * len(tensors)
    for known in pieces.values():
        joined: Any = torch.cat([piece for _, piece in known]).resolve_conj().resolve_neg()
        data = memoryview(joined.cpu().view(torch.uint8).numpy())
        begin = 0
        for number, piece in known:
            end = begin + piece.numel() * joined.element_size()
            found[number] = xxhash.xxh3_64_intdigest(data[begin:end]) or 1
            begin = end
    return found


def _spots(values: torch.Tensor) -> torch.Tensor:
    if values.is_contiguous():
        return values.view(-1)[:: -(-values.numel() // _ELEMENTS)]
    return values[_places(tuple(values.shape), values.device)]


@lru_cache(maxsize=1024)
def _places(shape: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, ...]:
    """The indexes of the same elements in a tensor that is not contiguous."""
    size = int(np.prod(shape))
    flat = torch.arange(0, size, -(-size // _ELEMENTS), device=device)
    return torch.unravel_index(flat, shape)
