"""Copies of the tensors of a step, so that it can be written while the training goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.storage.tensor_files import Weights, is_storable
from sonde.compare.weights.checkpoint import Weight

_Place = tuple[int, int]
"""The address of the memory of a tensor, and its bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class _EarlyCopy:
    tensor: torch.Tensor
    version: int
    memory: NDArray[np.uint8]

    @property
    def is_current(self) -> bool:
        return private.version_of(self.tensor) == self.version


class CopyMemory:
    """Memory for the copies of one step, used again for the next: to get fresh memory from the
    system takes several times as long as the copy.

    What a step does not change before its optimizer does can be copied by another thread while the
    step runs (`copy_early`). `copy` takes such a copy if torch has counted no write since. The two
    methods are not to run at the same time.
    """

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.uint8]] = []
        self._early: dict[_Place, _EarlyCopy] = {}

    def copy_early(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy those of ``tensors`` that are in host memory, without gaps. The copies that were
        made before become invalid."""
        with private.unobserved(), torch.no_grad():
            before, self._early = self._early, {}
            for each in tensors:
                if each.device.type != "cpu" or not is_storable(each) or not each.is_contiguous():
                    continue
                place = each.data_ptr(), each.nbytes
                known = before.get(place)
                memory = np.empty(each.nbytes, np.uint8) if known is None else known.memory
                self._early[place] = _EarlyCopy(each, private.version_of(each), memory)
                # Not by torch, which would start threads of its own beside the training's.
                np.copyto(memory, each.detach().view(-1).view(torch.uint8).numpy())

    def copy(self, weights: Weights) -> Weights:
        """The same with values that the program does not change. The copies that were made before
        become invalid."""
        before = iter(self._arrays)
        self._arrays = []
        return {
            file: [self._copy(each, before) for each in members]
            for file, members in weights.items()
        }

    def _copy(self, weight: Weight, before: Iterator[NDArray[np.uint8]]) -> Weight:
        values = weight.bits()
        early = self._early.get((values.__array_interface__["data"][0], values.nbytes))
        if early is not None and early.is_current:
            memory = early.memory
        else:
            memory = self._taken(values.nbytes, before)
            np.copyto(memory.view(values.dtype).reshape(values.shape), values)
        made = memory.view(values.dtype).reshape(values.shape)
        return replace(weight, load=lambda: made)

    def _taken(self, nbytes: int, before: Iterator[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        memory = next(before, None)
        if memory is None or memory.nbytes != nbytes:
            memory = np.empty(nbytes, np.uint8)
        self._arrays.append(memory)
        return memory
