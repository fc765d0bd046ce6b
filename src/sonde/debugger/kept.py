"""Values of tensors that are kept to be looked at later, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sonde.core.keys import Io

Place = tuple[str, Io, int]
"""Op, input or output, slot."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptTensor:
    """Values of one step; ``dtype`` is the type the tensor had, numpy may lack it."""

    step: int
    array: NDArray[Any]
    dtype: str


class KeptValues:
    """Arrays by place and step; the one that was used longest ago goes first.

    Used from the training thread only. The arrays are the store's own. An array may be kept for
    several places; it counts once, and stays until the last of them is dropped.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._used = 0
        self._kept: OrderedDict[tuple[Place, int], KeptTensor] = OrderedDict()
        self._steps: dict[Place, list[int]] = {}
        self._keepers: dict[int, int] = {}
        self.dropped = 0

    @property
    def used_bytes(self) -> int:
        return self._used

    def has_room_for(self, nbytes: int) -> bool:
        """Whether a tensor of that size can be kept at all."""
        return nbytes <= self._budget

    def put(self, place: Place, tensor: KeptTensor, *, most_steps: int = 1 << 30) -> None:
        """Keep ``tensor``, and of ``place`` no more than ``most_steps`` steps."""
        self._drop(place, tensor.step)
        if not self.has_room_for(tensor.array.nbytes):
            self.dropped += 1
            return
        steps = self._steps.setdefault(place, [])
        while len(steps) >= most_steps:
            self._drop(place, steps[0])
        self._hold(tensor.array)
        self._kept[place, tensor.step] = tensor
        self._steps.setdefault(place, []).append(tensor.step)
        self._make_room()

    def set_budget(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._make_room()

    def _make_room(self) -> None:
        while self._used > self._budget:
            oldest, step = next(iter(self._kept))
            self._drop(oldest, step)
            self.dropped += 1

    def find(self, place: Place, step: int | None) -> KeptTensor | None:
        """The values of ``step``, or the latest."""
        steps = self._steps.get(place)
        if not steps:
            return None
        key = (place, max(steps) if step is None else step)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def steps(self, place: Place) -> tuple[int, ...]:
        return tuple(sorted(self._steps.get(place, ())))

    def _drop(self, place: Place, step: int) -> None:
        tensor = self._kept.pop((place, step), None)
        if tensor is None:
            return
        self._release(tensor.array)
        steps = self._steps[place]
        steps.remove(step)
        if not steps:
            del self._steps[place]

    def _hold(self, array: NDArray[Any]) -> None:
        keepers = self._keepers.get(id(array), 0)
        self._keepers[id(array)] = keepers + 1
        if not keepers:
            self._used += array.nbytes

    def _release(self, array: NDArray[Any]) -> None:
        self._keepers[id(array)] -= 1
        if not self._keepers[id(array)]:
            del self._keepers[id(array)]
            self._used -= array.nbytes
