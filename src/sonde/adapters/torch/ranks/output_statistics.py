"""Measures the outputs of modules, so that a rank whose numbers are far from the others is found.

Hooks are put on the modules inside an outermost one for a call of a compared step, and are taken
away when it ends. The numbers stay on the device until the step ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.activations import tensors_of
from sonde.adapters.torch.ranks.digests import plain
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.adapters.torch.ranks.non_finite.followed_modules import is_compiled
from sonde.ranks.report import OutputStatistic

_MOST_MODULES: Final = 500


@dataclass(slots=True, eq=False)
class OutputStatistics:
    """Of the first call of each module in the running step, in their order. ``timed`` is a block of
    Sonde's own work, ``shield`` takes its failures."""

    shield: Any
    timed: Callable[[], AbstractContextManager[None]]
    _found: dict[str, torch.Tensor] = field(default_factory=dict)
    _handles: list[Any] = field(default_factory=list)

    def follow(self, module: nn.Module) -> None:
        """Follow the modules inside ``module`` that have no others inside, until `leave`."""
        self.leave()
        if is_compiled(module):
            return  # A hook would have it compiled again.
        for name, inner in module.named_modules():
            if len(self._handles) >= _MOST_MODULES:
                break
            if next(inner.children(), None) is None:
                label = plain_name(name) or type(inner).__name__
                self._handles.append(inner.register_forward_hook(_after(self, label)))

    def leave(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def take(self) -> tuple[OutputStatistic, ...]:
        """What was measured in the step that ends; forgets it."""
        found, self._found = self._found, {}
        return tuple(OutputStatistic(name, *each.tolist()) for name, each in found.items())

    def ended(self, name: str, output: Any) -> None:
        if name in self._found:
            return
        with self.shield, self.timed():
            tensor = next(tensors_of(output), None)
            values = None if tensor is None else plain(tensor)
            if values is not None:
                exact = values.float()
                self._found[name] = torch.stack([exact.square().mean().sqrt(), exact.abs().max()])


def _after(owner: OutputStatistics, name: str) -> Callable[..., None]:
    """A function, not a method: a program may copy a module while it has the hook."""

    def ended(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        owner.ended(name, output)

    private.hide_from_compiler(ended)
    return ended
