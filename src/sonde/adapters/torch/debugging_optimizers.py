"""Which optimizers there are, which of them stepped, and whose weights they change."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator

import torch


class OptimizerBook:
    """Tells weights an optimizer has just changed from those it left alone: a program may have
    several optimizers, each for weights of its own. Used from the training thread only."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._used: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._stepped: set[int] = set()
        self._searched = 0

    def begins(self, optimizer: torch.optim.Optimizer) -> bool:
        """``optimizer`` is about to step; whether that is its first."""
        self._stepped.add(id(optimizer))
        if optimizer in self._used:
            return False
        self._known.add(optimizer)
        self._used.add(optimizer)
        return True

    def step_ended(self) -> None:
        self._stepped.clear()

    def search(self, weights: int) -> None:
        """Find optimizers that have not stepped yet; again when there are other ``weights``."""
        if weights != self._searched:
            self._searched = weights
            for thing in gc.get_objects():
                # Of the type alone: some objects do things when they are asked for their class.
                if issubclass(type(thing), torch.optim.Optimizer):
                    self._known.add(thing)

    def left_alone(self) -> set[int]:
        """The ids of tensors that belong to optimizers, none of which stepped in this step."""
        idle = [each for each in self._known if id(each) not in self._stepped]
        if not idle:
            return set()
        busy = (each for each in self._known if id(each) in self._stepped)
        return set(_ids(idle)) - set(_ids(busy))

    def changed(self) -> set[int]:
        """The ids of tensors that belong to an optimizer that has stepped at any time."""
        return set(_ids(self._used))


def _ids(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[int]:
    for optimizer in optimizers:
        # One whose __init__ has not run to its end has no groups yet.
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group["params"]:
                yield id(parameter)
