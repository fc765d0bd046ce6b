"""What a forward pass changes in a module besides its result: buffers and plain attributes."""

from __future__ import annotations

import random
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.wrappers import wrapped
from sonde.adapters.torch.replay.step_record import ModuleState

_OWN_OF_MODULE = frozenset(vars(nn.Module()))
_PLAIN = (int, float, bool, str, type(None), torch.Tensor)
_CONTAINERS = (list, dict, set, deque)
_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_LEARNING_CALLS = 2
_CHECK_EVERY = 50
_SHARDING = ("torch.distributed.fsdp", "torch.distributed._composable")
Place = tuple[str, str]
"""A submodule's name, and the name of an attribute or buffer of it."""


def is_ddp(module: nn.Module) -> bool:
    """Whether the module is torch's DistributedDataParallel, which may not be imported."""
    return type(module).__name__ == "DistributedDataParallel" and wrapped(module) is not None


def is_redirected(module: nn.Module) -> bool:
    """Whether a call of the module runs another method of it. Lightning and Fabric call a
    ``training_step`` so where DDP wraps the module: in this one call, ``forward`` is replaced."""
    forward = vars(module).get("forward")
    made_by = getattr(forward, "__module__", None) or ""
    return getattr(forward, "__name__", "") == "wrapped_forward" and "lightning" in made_by


def is_distributed() -> bool:
    """Whether this process is a rank of a process group."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


@dataclass(slots=True, eq=False)
class _Tree:
    """A module and all below it, as they were when they were listed."""

    names: list[str]
    modules: list[nn.Module]
    parameters: list[nn.Parameter]

    @classmethod
    def of(cls, module: nn.Module) -> _Tree:
        found = dict(module.named_modules())
        return cls(list(found), list(found.values()), list(module.parameters()))


@dataclass(slots=True, eq=False)
class ModuleWatch:
    """Learns what the calls of one module change, so that only that is copied before each call.

    In the first calls every buffer is copied, and compared after the call. Torch does not count
    the writes of a batch norm to its statistics, so the values are compared; later changes of other
    buffers are noticed by the count of writes.
    """

    module: weakref.ref[nn.Module]
    tree: _Tree
    _calls: int = 0
    _changing: set[Place] = field(default_factory=set)
    _attributes: set[Place] = field(default_factory=set)

    @classmethod
    def of(cls, module: nn.Module) -> ModuleWatch:
        return cls(weakref.ref(module), _Tree.of(module))

    @property
    def has_trained_weights(self) -> bool:
        return any(each.requires_grad for each in self.tree.parameters)

    @property
    def holds_ddp(self) -> bool:
        """Whether ranks train a module inside together, each with all weights."""
        return is_distributed() and any(map(is_ddp, self.tree.modules))

    @property
    def exchanges_data(self) -> bool:
        """Whether calls may exchange data with other ranks, so that one rank alone must not repeat
        them: sharded weights, batch norms over all ranks, gradients that DDP averages."""
        return is_distributed() and (
            self.holds_ddp
            or any(
                isinstance(each, nn.SyncBatchNorm) or type(each).__module__.startswith(_SHARDING)
                for each in self.tree.modules
            )
            or any(hasattr(each, "device_mesh") for each in self.tree.parameters)
        )

    @property
    def weight_versions(self) -> int:
        """The sum of the counts of writes to all parameters."""
        return sum(map(private.version_of, self.tree.parameters))

    def before(self) -> ModuleState:
        """The state before a call. Used where no mode observes ops."""
        module = self.module()
        if module is not None and self._calls % _CHECK_EVERY == 0 and self._calls:
            self.tree = _Tree.of(module)
        self._calls += 1
        is_learning = self._calls <= _LEARNING_CALLS
        by_name = dict(zip(self.tree.names, self.tree.modules, strict=True))
        state = ModuleState(
            training=tuple([each.training for each in self.tree.modules]),
            requires_grad=tuple([each.requires_grad for each in self.tree.parameters]),
        )
        if is_learning:
            for place, buffer in _buffers(by_name):
                state.buffers[place] = buffer.clone()
            for name, each in by_name.items():
                state.attributes.update(
                    ((name, key), frozen(value)) for key, value in plain_attributes(each)
                )
        else:
            for name, key in self._changing:
                now = buffers_of(by_name[name]).get(key) if name in by_name else None
                if now is not None:
                    state.buffers[name, key] = now.clone()
            for name, key in self._attributes:
                owner = by_name.get(name)
                if owner is not None and key in vars(owner):
                    state.attributes[name, key] = frozen(vars(owner)[key])
        state.versions = 0 if is_learning else self._versions(by_name)
        return state

    def after(self, state: ModuleState) -> bool:
        """Learn from a call that began in ``state``; False if it changed a buffer of which no
        copy was kept."""
        by_name = dict(zip(self.tree.names, self.tree.modules, strict=True))
        if self._calls > _LEARNING_CALLS:
            if state.versions == self._versions(by_name):
                return True
            self._calls = 0  # Learn again.
            return False
        for (name, key), before in list(state.buffers.items()):
            now = buffers_of(by_name[name]).get(key)
            if now is None or not _equal(now, before):
                self._changing.add((name, key))
            elif (name, key) not in self._changing and not _is_statistic(by_name[name]):
                del state.buffers[name, key]
            elif _is_statistic(by_name[name]):
                self._changing.add((name, key))
        for (name, key), before in list(state.attributes.items()):
            if not is_same_attribute(vars(by_name[name]).get(key), before):
                self._attributes.add((name, key))
            elif (name, key) not in self._attributes:
                del state.attributes[name, key]
        return True

    def _versions(self, by_name: dict[str, nn.Module]) -> int:
        """The sum of the counts of writes to buffers that calls are not known to change."""
        return sum(
            private.version_of(buffer)
            for place, buffer in _buffers(by_name)
            if place not in self._changing
        )


def _buffers(by_name: dict[str, nn.Module]) -> Iterator[tuple[Place, torch.Tensor]]:
    for name, module in by_name.items():
        for key, buffer in buffers_of(module).items():
            if buffer is not None:
                yield (name, key), buffer


def buffers_of(module: nn.Module) -> dict[str, torch.Tensor | None]:
    """The buffers of ``module`` itself. The table of a ScriptModule is not a dict."""
    table: Any = module._buffers
    return table if isinstance(table, dict) else dict(table.items())


def _is_statistic(module: nn.Module) -> bool:
    """Whether the module's buffers may begin to change in any call."""
    return isinstance(module, nn.modules.batchnorm._NormBase)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and bool(torch.equal(one, other))


def plain_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes of the program's own with numbers, texts, tensors, and containers."""
    for key, value in vars(module).items():
        if key not in _OWN_OF_MODULE and isinstance(value, (*_PLAIN, *_CONTAINERS, *_GENERATORS)):
            yield key, value


def generators_near(modules: Iterable[nn.Module]) -> Iterator[Any]:
    """Random generators among the global variables of the files that define ``modules``, and of
    the script."""
    names = {type(each).__module__ for each in modules} | {"__main__"}
    for name in names:
        for value in list(vars(sys.modules.get(name, sys)).values()):
            if isinstance(value, _GENERATORS):
                yield value


@dataclass(frozen=True, slots=True)
class Frozen:
    """A container or a random generator, and its contents or its state at one time."""

    container: Any
    contents: Any

    @property
    def is_unchanged(self) -> bool:
        if isinstance(self.container, _GENERATORS):
            return _same_state(generator_state(self.container), self.contents)
        return _has_items(self.container, self.contents)

    def restore(self) -> None:
        container = self.container
        if isinstance(container, _GENERATORS):
            set_generator_state(container, self.contents)
            return
        container.clear()
        if isinstance(container, (dict, set)):
            container.update(self.contents)
        else:
            container.extend(self.contents)


def generator_state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def set_generator_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _same_state(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    return repr(one) == repr(other)


def frozen(value: Any) -> Any:
    """``value`` as it is now: a container is kept with a copy of its contents, a random generator
    with its state."""
    if isinstance(value, _GENERATORS):
        return Frozen(value, generator_state(value))
    if isinstance(value, _CONTAINERS):
        return Frozen(value, value.copy())
    return value


def is_same_attribute(now: Any, before: Any) -> bool:
    """Whether an attribute has the value that `frozen` kept."""
    if isinstance(before, Frozen):
        return now is before.container and before.is_unchanged
    if isinstance(before, torch.Tensor):
        return now is before
    return type(now) is type(before) and (now is before or bool(now == before))


def _has_items(container: Any, contents: Any) -> bool:
    if len(container) != len(contents):
        return False
    if isinstance(container, dict):
        return container.keys() == contents.keys() and all(
            container[key] is value for key, value in contents.items()
        )
    if isinstance(container, set):
        return bool(container == contents)
    return all(one is other for one, other in zip(container, contents, strict=True))


def set_attribute(module: nn.Module, key: str, before: Any) -> None:
    """Give an attribute the value that `frozen` kept; a container stays the same object."""
    if isinstance(before, Frozen):
        if not before.is_unchanged:
            before.restore()
        before = before.container
    vars(module)[key] = before
