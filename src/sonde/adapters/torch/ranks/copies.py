"""Finds copies of the trained networks, such as the moving average of their weights.

A teacher, a target network or an average is a module with the parameters of a trained one, by name
and shape, that no optimizer changes. It was made by ``copy.deepcopy``, is an ``AveragedModel``, or
is called before the first step. Nothing says how it is laid out: as what it is a copy of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.digests import tensor_digest
from sonde.adapters.torch.ranks.layout import TensorPlacements, outermost, plain_name
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

_MOST_CANDIDATES = 10_000


@dataclass(slots=True, eq=False)
class FollowedCopies:
    """``shield`` takes failures of Sonde. Used from the training thread."""

    layout: TensorPlacements
    shield: Any
    has_new: bool = False
    _candidates: WeakTable[nn.Module, str] = field(default_factory=WeakTable)
    _count: int = 0
    _found: WeakTable[nn.Module, str] = field(default_factory=WeakTable)

    def install(self, undo: ExitStack) -> None:
        wrap(nn.Module, "__setstate__", self._copying, undo)
        wrap(AveragedModel, "__init__", self._averaging, undo)

    def called(self, module: nn.Module) -> None:
        """A module is copied, or an outermost one is called other than in training."""
        if not self.layout.named:
            self._add(module)

    def learn(self, trained: Sequence[tuple[str, nn.Module]]) -> None:
        """Describe the copies of these networks in the layout."""
        self.has_new = False
        candidates = {each: self._candidates.get(each) or "" for each in list(self._candidates)}
        for line, module in outermost(candidates):
            if module in self._found or (source := _source(module, trained)) is None:
                continue
            self._found[module] = line
            for (name, tensor), (_, owner) in zip(
                _parameters(module), _parameters(source), strict=True
            ):
                known = self.layout.of(owner)
                if known is not None and self.layout.of(tensor) is None:
                    self.layout.learn_copy(_named(name, line), tensor, known)

    def current(self) -> dict[str, int]:
        """The hashes of the parameters of all copies, by name."""
        return {
            _named(name, self._found.get(module) or ""): tensor_digest(tensor)
            for module in list(self._found)
            for name, tensor in _parameters(module)
        }

    def _add(self, module: nn.Module) -> None:
        """Keep the line at which it was made, or called: it tells the copies of a rank apart, and
        from one that this rank alone has."""
        if module not in self._candidates and self._count < _MOST_CANDIDATES:
            self._count += 1
            self._candidates[module] = calling_line()

    def _copying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_state(module: Any, state: Any) -> Any:
            result = original(module, state)
            with self.shield:
                self.called(module)
            return result

        return set_state

    def _averaging(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            with self.shield:
                self._add(module)
                self.has_new = bool(self.layout.named)

        return make


def _named(name: str, line: str) -> str:
    return f"{name} of the copy made at {line or 'an unknown line'}"


def _source(module: nn.Module, trained: Sequence[tuple[str, nn.Module]]) -> nn.Module | None:
    """The trained network that ``module`` is a copy of."""
    own = list(_parameters(module))
    for _, other in trained:
        pairs = list(zip(own, _parameters(other), strict=False))
        is_alike = len(pairs) == len(own) == sum(1 for _ in _parameters(other)) and all(
            name == known and tensor.shape == weight.shape
            for (name, tensor), (known, weight) in pairs
        )
        if is_alike and any(tensor is not weight for (_, tensor), (_, weight) in pairs):
            return other
    return None


def _parameters(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in module.named_parameters():
        yield plain_name(name), tensor
