"""Observes a network that the program holds under two names, one of them that of a target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.element_count import element_count
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.weak_table import WeakTable

LOOKED_AT = (3, 30, 100, 300)
"""Steps after which the names of networks are looked at: a program may share memory later."""
COMPARED = 64
MOST_NAMES = 4
_TARGET = re.compile(r"(^|_)(target|teacher|ema|momentum|averaged|old|slow|shadow)(_|\d|$)")


@dataclass(slots=True, eq=False)
class _Alias:
    """``first``: a parameter of the target; ``shared``: the paths of the parameters that it shares
    with the other network, if it does not share all."""

    names: tuple[str, ...]
    first: torch.Tensor
    shared: tuple[str, ...] = ()
    version: int = 0
    values: torch.Tensor | None = None

    def keep(self) -> None:
        """Remember the state that the optimizer's step has left."""
        self.version, self.values = self.first._version, _values(self.first).clone()

    @property
    def is_written(self) -> bool:
        """Whether the program has written since; a write to ``.data`` keeps the version."""
        if self.values is None or self.first._version > self.version:
            return self.values is not None
        return not torch.equal(_values(self.first), self.values)


@dataclass(slots=True, eq=False)
class TargetAliases:
    """Notes networks that are their own target: held under two names, and written to between the
    steps of the optimizer, as by an averaging that averages a network with itself; and targets that
    are objects of their own, but share all their parameters with another network."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    _aliases: WeakTable[nn.Module, _Alias] = field(default_factory=WeakTable)

    @shielded
    def after_step(self, optimizer: torch.optim.Optimizer, state: Any) -> None:
        if self.recorder.step in LOOKED_AT:
            self._find(dict(variables_in_own_frame()))
        for module in list(self._aliases):
            known = self._aliases.get(module)
            if known is not None:
                known.keep()

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: Any) -> None:
        for module in list(self._aliases):
            known = self._aliases.get(module)
            if known is not None and known.is_written:
                name = "target-shares-part" if known.shared else "target-is-itself"
                numbers = {"shared": " ".join(known.shared)} if known.shared else {}
                self.recorder.event(name, caller(), " ".join(known.names), **numbers)

    def _find(self, variables: dict[str, object]) -> None:
        groups: dict[tuple[int, ...], list[tuple[str, nn.Module]]] = {}
        named_modules = [*_attributes(self.modules), *_modules(variables)]
        self._find_shared_parts(named_modules)
        for name, module in named_modules:
            held = tuple(each.data_ptr() for each in module.parameters() if element_count(each))
            if held:
                groups.setdefault(held, []).append((name, module))
        for named in groups.values():
            if not any(each.requires_grad for _, one in named for each in one.parameters()):
                continue
            targets = [each for each in named if _TARGET.search(each[0].rpartition(".")[2])]
            others = [each for each in named if each not in targets]
            if targets and others:
                self._note(targets, others)

    def _find_shared_parts(self, named: list[tuple[str, nn.Module]]) -> None:
        """Targets of the same form as another network that have some parameters of their own, and
        share others that are trained."""
        targets = [each for each in named if _TARGET.search(each[0].rpartition(".")[2])]
        for name, target in targets:
            mine = dict(target.named_parameters())
            for other_name, other in named:
                theirs = dict(other.named_parameters()) if type(other) is type(target) else {}
                if (other_name, other) in targets or target in self._aliases:
                    continue
                if not mine or mine.keys() != theirs.keys():
                    continue
                shared = [path for path, each in mine.items() if each is theirs[path]]
                own = [each for path, each in mine.items() if path not in shared]
                if own and any(mine[path].requires_grad for path in shared):
                    self._aliases[target] = _Alias(
                        (name, other_name), own[0], tuple(shared[:MOST_NAMES])
                    )

    def _note(
        self, targets: list[tuple[str, nn.Module]], others: list[tuple[str, nn.Module]]
    ) -> None:
        names = tuple(dict.fromkeys(name for name, _ in (*targets, *others)))[:4]
        (_, target), (_, other) = targets[0], others[0]
        if any(one is two for _, one in targets for _, two in others):
            first = next(iter(target.parameters()))
            self._aliases[target] = _Alias(names, first)
        elif not _contains(target, other) and not _contains(other, target):
            tensors = sum(1 for _ in target.parameters())
            self.recorder.event("target-shares", None, " ".join(names), tensors=tensors)


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().flatten()[:COMPARED]


def _contains(outer: nn.Module, inner: nn.Module) -> bool:
    """Whether one is a wrapper around the other."""
    return any(each is inner for each in outer.modules())


def _attributes(modules: ModuleCalls) -> Iterator[tuple[str, nn.Module]]:
    for root in modules.roots:
        for name, module in root.named_modules(remove_duplicate=False):
            if name:
                yield name, module


def _modules(variables: dict[str, object]) -> Iterator[tuple[str, nn.Module]]:
    """Networks in variables, and in attributes of objects in variables, such as an agent."""
    for name, value in variables.items():
        if isinstance(value, nn.Module):
            yield name, value
        elif not isinstance(value, (type, ModuleType, torch.Tensor, torch.optim.Optimizer)):
            for key, held in list(getattr(value, "__dict__", {}).items()):
                if isinstance(held, nn.Module):
                    yield key, held
