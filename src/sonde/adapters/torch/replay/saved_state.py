"""Saves what executing a step again changes, and restores it: the training must not notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.module_state import (
    Frozen,
    buffers_of,
    frozen,
    generators_near,
    is_same_attribute,
    plain_attributes,
    set_attribute,
)
from sonde.adapters.torch.replay.random_states import kept_random
from sonde.adapters.torch.replay.step_record import BackwardPass, Event, ModuleCall, StepRecord


@dataclass(slots=True, eq=False)
class _SavedModule:
    module: nn.Module
    training: bool
    attributes: dict[str, Any]
    buffers: dict[str, torch.Tensor | None]

    @classmethod
    def of(cls, module: nn.Module) -> _SavedModule:
        attributes = {key: frozen(value) for key, value in plain_attributes(module)}
        return cls(module, module.training, attributes, dict(buffers_of(module)))

    def restore(self) -> None:
        module = self.module
        if module.training != self.training:
            module.training = self.training
        for key in [key for key, _ in plain_attributes(module) if key not in self.attributes]:
            del vars(module)[key]
        for key, value in self.attributes.items():
            if not is_same_attribute(vars(module).get(key), value):
                set_attribute(module, key, value)
        table = module._buffers
        if isinstance(table, dict) and (
            len(table) != len(self.buffers)
            or any(table.get(key) is not each for key, each in self.buffers.items())
        ):
            table.clear()
            table.update(self.buffers)


@dataclass(slots=True, eq=False)
class SavedTensor:
    """The values of a buffer or weight, and the count of its writes."""

    tensor: torch.Tensor
    values: torch.Tensor
    version: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> SavedTensor:
        return cls(tensor, tensor.detach().clone(), private.version_of(tensor))

    def restore(self) -> None:
        self.tensor.copy_(self.values)
        if self.version >= 0:
            private.set_version(self.tensor, self.version)


@dataclass(slots=True, eq=False)
class SavedState:
    """Modules, buffers, gradients and flags of parameters as they were.

    ``gradients``: by the id of the parameter, with the parameter.
    """

    modules: list[_SavedModule] = field(default_factory=list)
    buffers: dict[int, SavedTensor] = field(default_factory=dict)
    gradients: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=dict)
    flags: list[tuple[torch.Tensor, bool]] = field(default_factory=list)
    generators: list[Frozen] = field(default_factory=list)

    @classmethod
    def of(cls, roots: Iterable[nn.Module], leaves: Iterable[torch.Tensor]) -> SavedState:
        saved = cls()
        seen: set[int] = set()
        for root in roots:
            for module in root.modules():
                if id(module) in seen:
                    continue
                seen.add(id(module))
                saved.modules.append(_SavedModule.of(module))
                for buffer in buffers_of(module).values():
                    if buffer is not None and id(buffer) not in saved.buffers:
                        saved.buffers[id(buffer)] = SavedTensor.of(buffer)
        found = generators_near(each.module for each in saved.modules)
        saved.generators = [frozen(each) for each in found]
        for leaf in leaves:
            if id(leaf) not in saved.gradients:
                saved.gradients[id(leaf)] = (leaf, leaf.grad)
                saved.flags.append((leaf, leaf.requires_grad))
        return saved

    def restore(self) -> None:
        for leaf, flag in self.flags:
            if leaf.requires_grad != flag:
                leaf.requires_grad_(flag)
        for leaf, gradient in self.gradients.values():
            if leaf.grad is not gradient:
                leaf.grad = gradient
        for module in self.modules:
            module.restore()
        for generator in self.generators:
            generator.restore()
        with torch.no_grad():
            for buffer in self.buffers.values():
                buffer.restore()


def set_before(call: ModuleCall) -> None:
    """Put the module of ``call`` into the state that it had before the call."""
    modules = dict(call.module.named_modules())
    for module, flag in zip(modules.values(), call.state.training, strict=False):
        if module.training != flag:
            module.training = flag
    for parameter, flag in zip(call.module.parameters(), call.state.requires_grad, strict=False):
        if parameter.requires_grad != flag:
            parameter.requires_grad_(flag)
    with torch.no_grad():
        for (name, key), values in call.state.buffers.items():
            buffer = buffers_of(modules[name]).get(key) if name in modules else None
            if buffer is not None and buffer.shape == values.shape:
                # A batch norm saves its statistics for backward; torch does not count its writes.
                version = private.version_of(buffer)
                buffer.copy_(values)
                private.set_version(buffer, version)
            elif name in modules:
                modules[name]._buffers[key] = values.clone()
    for (name, key), value in call.state.attributes.items():
        if name in modules:
            set_attribute(modules[name], key, value)


def leaves_of(record: StepRecord, events: Iterable[Event]) -> list[torch.Tensor]:
    """The tensors that ``events`` accumulate gradients in, each once."""
    found: dict[int, torch.Tensor] = {}
    for event in events:
        if isinstance(event, ModuleCall):
            found.update((id(each), each) for each in event.module.parameters())
        for each in event.roots if isinstance(event, BackwardPass) else event.inputs:
            if each.leaf is not None and each.requires_grad:
                found[id(each.leaf)] = each.leaf
    if record.optimizer is not None:
        for group in record.optimizer.param_groups:
            found.update((id(each), each) for each in group["params"])
    return list(found.values())


@contextmanager
def kept_state(record: StepRecord, events: Sequence[Event]) -> Iterator[SavedState]:
    """Leave everything after this block as it was before: weights are not changed by a replay,
    buffers, gradients, flags, attributes and random generators are restored."""
    with kept_random(), private.kept_autograd():
        with private.unobserved():
            modules = [each.module for each in events if isinstance(each, ModuleCall)]
            saved = SavedState.of(modules, leaves_of(record, events))
        try:
            yield saved
        finally:
            with private.unobserved():
                saved.restore()
