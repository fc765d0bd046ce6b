"""Observes a network that the program holds under two names, one of them that of a target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.weak_table import WeakTable

AT_STEP = 3
_TARGET = re.compile(r"(^|_)(target|teacher|ema|momentum|averaged|old|slow|shadow)(_|\d|$)")


@dataclass(slots=True, eq=False)
class _Alias:
    names: tuple[str, ...]
    first: torch.Tensor
    version: int


@dataclass(slots=True, eq=False)
class TargetAliases:
    """Notes networks that are their own target: held under two names, and written to between the
    steps of the optimizer, as by an averaging that averages a network with itself."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    _aliases: WeakTable[nn.Module, _Alias] = field(default_factory=WeakTable)

    @shielded
    def after_step(self, optimizer: torch.optim.Optimizer, state: Any) -> None:
        if self.recorder.step == AT_STEP:
            self._find(dict(variables_in_own_frame()))
        for module in list(self._aliases):
            known = self._aliases.get(module)
            if known is not None:
                known.version = known.first._version

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: Any) -> None:
        for module in list(self._aliases):
            known = self._aliases.get(module)
            if known is not None and known.first._version > known.version:
                self.recorder.event("target-is-itself", caller(), " ".join(known.names))

    def _find(self, variables: dict[str, object]) -> None:
        names: dict[int, tuple[nn.Module, list[str]]] = {}
        for name, module in (*_attributes(self.modules), *_modules(variables)):
            names.setdefault(id(module), (module, []))[1].append(name)
        for module, held in names.values():
            first = next(module.parameters(), None)
            targets = [each for each in held if _TARGET.search(each.rpartition(".")[2])]
            if first is not None and targets and len(targets) < len(set(held)):
                ordered = (*targets, *(each for each in held if each not in targets))
                self._aliases[module] = _Alias(ordered[:4], first, first._version)


def _attributes(modules: ModuleCalls) -> Iterator[tuple[str, nn.Module]]:
    for root in modules.roots:
        for name, module in root.named_modules(remove_duplicate=False):
            if name:
                yield name, module


def _modules(variables: dict[str, object]) -> Iterator[tuple[str, nn.Module]]:
    for name, value in variables.items():
        if isinstance(value, nn.Module):
            yield name, value
