"""Follows the gradients that a rank's backward passes compute, before any exchange.

A hook of a parameter is called with what a backward pass adds to its gradient, before it is added:
so before DistributedDataParallel, FSDP2 or a program exchange gradients. In steps that are not
compared the hook returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.digests import plain, project, tensor_digest


@dataclass(slots=True)
class LocalGradient:
    """What one parameter got in a step. ``total``: the projections of all backward passes."""

    digest: int = 0
    total: torch.Tensor | None = None
    last: torch.Tensor | None = None


@dataclass(slots=True, eq=False)
class LocalGradients:
    """``is_wanted``: whether the running step is compared. ``shield`` takes failures of Sonde."""

    is_wanted: Callable[[], bool]
    shield: Any
    undo: ExitStack
    _found: dict[int, LocalGradient] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)
    _whole: set[int] = field(default_factory=set)

    def follow(self, parameters: list[torch.Tensor]) -> None:
        """Follow these parameters from now on, each once."""
        for parameter in parameters:
            key = private.tensor_id(parameter)
            if key in self._known or not parameter.requires_grad or not parameter.is_leaf:
                continue
            self._follow(key, parameter)

    def follow_whole(self, sharded: torch.Tensor, whole: torch.Tensor) -> None:
        """Follow ``whole``, of which a parameter has the shards, under the name of that one."""
        key = private.tensor_id(sharded)
        if key not in self._whole and whole.requires_grad:
            self._whole.add(key)
            self._follow(key, whole)

    def is_of_whole(self, parameter: torch.Tensor) -> bool:
        """Whether the gradients that were computed are those of the whole of a sharded one."""
        return private.tensor_id(parameter) in self._whole

    def _follow(self, key: int, parameter: torch.Tensor) -> None:
        self._known.add(key)
        follow: Any = parameter.register_hook
        handle = follow(_hook(self, key))
        self.undo.callback(handle.remove)

    def of(self, parameter: torch.Tensor) -> LocalGradient | None:
        """What was computed for ``parameter`` since the step began."""
        return self._found.get(private.tensor_id(parameter))

    def clear(self) -> None:
        """A step has ended."""
        self._found.clear()

    def add(self, key: int, gradient: torch.Tensor) -> None:
        with self.shield, private.unobserved(), torch.no_grad():
            values = plain(gradient)
            if values is None or not values.is_floating_point():
                return
            known = self._found.setdefault(key, LocalGradient())
            known.last = project(values)
            known.total = known.last if known.total is None else known.total + known.last
            known.digest = (known.digest * 31 + tensor_digest(values)) % (1 << 64)


def _hook(owner: LocalGradients, key: int) -> Callable[[torch.Tensor], None]:
    def note(gradient: torch.Tensor) -> None:
        if owner.is_wanted():
            owner.add(key, gradient)

    private.hide_from_compiler(note)
    return note
