"""Tracks the optimizers, which of them stepped, and which weights they change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from sonde.adapters.torch.debugging.signals.norms import norms
from sonde.adapters.torch.living_objects import living_objects
from sonde.core.weak_table import WeakTable

if TYPE_CHECKING:
    from sonde.adapters.torch.debugging.held_tensors import TorchHeld


DECAYED = 1e-3
SHRUNK = 1e-2


class OptimizerRegistry:
    """Distinguishes weights that an optimizer has just changed from the others: a program may have
    several optimizers, each for its own weights. Used from the training thread only."""

    def __init__(self) -> None:
        self._known: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        self._used: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        self._names: WeakTable[torch.optim.Optimizer, str] = WeakTable()
        self._stepped: set[int] = set()
        # The largest gradient of each parameter, and the highest rate of each optimizer so far.
        self._largest: dict[int, float] = {}
        self._rates: dict[int, float] = {}
        self._searched = 0

    def begins(self, optimizer: torch.optim.Optimizer) -> bool:
        """Note that ``optimizer`` is about to step; returns whether that is its first step."""
        self._stepped.add(id(optimizer))
        if optimizer in self._used:
            return False
        self._known[optimizer] = None
        self._used[optimizer] = None
        return True

    def step_ended(self) -> None:
        self._stepped.clear()

    def name_of_step(self, held: Mapping[int, TorchHeld]) -> str:
        """The names of the optimizers that stepped in this step, such as ``Adam of Generator``. A
        name is made once, from the parameters ``held`` then, and reused when its optimizer is
        gone."""
        if not self._stepped:
            return ""
        stepped = [each for each in self._used if id(each) in self._stepped]
        for optimizer in stepped:
            if optimizer not in self._names:
                self._names[optimizer] = _new_name(optimizer, held, set(self._names.values()))
        return " + ".join(sorted(self._names.get(each) or "" for each in stepped))

    def search(self, weights: int) -> None:
        """Find optimizers that have not stepped yet; again when there are other ``weights``."""
        if weights != self._searched:
            self._searched = weights
            for each in living_objects(torch.optim.Optimizer):
                self._known[each] = None

    def left_alone(self) -> set[int]:
        """The ids of tensors that belong to optimizers, none of which stepped in this step."""
        idle = [each for each in self._known if id(each) not in self._stepped]
        if not idle:
            return set()
        busy = (each for each in self._known if id(each) in self._stepped)
        return set(_ids(idle)) - set(_ids(busy))

    def excused(self) -> set[int]:
        """The ids of parameters that need not change in this step although their optimizer stepped:
        its rate is zero or has decayed, or their gradient has shrunk to nearly nothing, as in a
        training that has converged."""
        found: set[int] = set()
        for optimizer in self._known:
            if id(optimizer) not in self._stepped:
                continue
            for number, group in enumerate(optimizer.param_groups):
                rate = float(group.get("lr", 1.0))
                key = hash((id(optimizer), number))
                highest = self._rates[key] = max(rate, self._rates.get(key, 0.0))
                for parameter in group["params"]:
                    if rate <= DECAYED * highest or self._has_shrunk(parameter):
                        found.add(id(parameter))
        return found

    def _has_shrunk(self, parameter: torch.Tensor) -> bool:
        gradient = parameter.grad
        if gradient is None:
            return False
        # Of a DTensor this rank's part: the norm of the whole would be a collective.
        norm = float(norms([gradient])[0])
        largest = self._largest.get(id(parameter), 0.0)
        if norm > largest:  # False for NaN.
            self._largest[id(parameter)] = norm
        return norm < SHRUNK * largest

    def held(self) -> set[int]:
        """The ids of tensors that belong to any known optimizer."""
        return set(_ids(self._known))

    def changed(self) -> set[int]:
        """The ids of tensors that belong to an optimizer that has stepped at any time."""
        return set(_ids(self._used))


def _new_name(
    optimizer: torch.optim.Optimizer, held: Mapping[int, TorchHeld], taken: Collection[str]
) -> str:
    own = set(_ids([optimizer]))
    place = _place_of(
        [each.scope for number, each in held.items() if number in own],
        {each.scope for number, each in held.items() if number not in own and each.is_weight},
    )
    plain = type(optimizer).__name__ + (f" of {place}" if place else "")
    number = 1
    name = plain
    while name in taken:
        number += 1
        name = f"{plain} {number}"
    return name


def _place_of(own: Iterable[str], others: Collection[str]) -> str:
    """The outermost module that has all of ``own`` in it and none of ``others``, or nothing."""
    common: list[str] = []
    for parts in zip(*(scope.split("/") for scope in own), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
        scope = "/".join(common)
        is_own = not any(f"{other}/".startswith(f"{scope}/") for other in others)
        if len(common) > 1 and is_own:  # The root is not a module.
            name, _, label = common[-1].partition("-")
            is_root = len(common) == 2
            return common[-1] if not is_root else label if name == "network" else name
    return ""


def _ids(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[int]:
    return (id(each) for optimizer in optimizers for each in parameters_of(optimizer))


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    # An optimizer whose __init__ has not finished has no groups yet.
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]
