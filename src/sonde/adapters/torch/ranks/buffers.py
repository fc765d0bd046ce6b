"""The buffers of modules that all ranks should have alike, and when they should.

DistributedDataParallel broadcasts buffers before a forward pass: they are compared right after
that, because BatchNorm then changes them on each rank with its own data. SyncBatchNorm has the same
statistics on all ranks. Nothing promises that other buffers are the same; those that were at the
start are compared at the end of a step. Statistics of BatchNorm that nobody broadcasts are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.digests import tensor_digest
from sonde.adapters.torch.ranks.layout import TensorPlacements, outermost, plain_name
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

Promise = Literal["broadcast", "synchronised", "none"]


@dataclass(frozen=True, slots=True)
class _Buffer:
    """``group``: over which equality is promised; None: all ranks, or no promise."""

    name: str
    tensor: torch.Tensor
    promise: Promise
    group: Any = None


@dataclass(slots=True, eq=False)
class DescribedBuffers:
    """Hashes the buffers of the outermost of ``modules``. ``is_wanted``: whether the running step
    is compared. Used from the training thread."""

    layout: TensorPlacements
    modules: WeakTable[nn.Module, str]
    is_wanted: Callable[[], bool]
    shield: Any
    _initial: dict[str, int] = field(default_factory=dict)
    _broadcast: dict[str, int] = field(default_factory=dict)

    def install(self, undo: ExitStack) -> None:
        wrap(DistributedDataParallel, "_sync_buffers", self._syncing, undo)

    def begin(self) -> None:
        """A module is about to be called for the first time: keep what its buffers are now."""
        with private.unobserved(), torch.no_grad():
            for each in self._all():
                if each.name not in self._initial:
                    self._initial[each.name] = tensor_digest(each.tensor)

    def learn(self) -> None:
        """Describe the buffers in the layout."""
        for each in self._all():
            is_declared = each.promise != "none"
            self.layout.learn_buffer(each.name, each.tensor, each.group, is_declared=is_declared)

    def initial(self) -> dict[str, int]:
        """The hashes before the first step."""
        return self._initial

    def current(self) -> dict[str, int]:
        """The hashes of this step; without those that no forward pass of it has broadcast."""
        found = {
            each.name: tensor_digest(each.tensor)
            for each in self._all()
            if each.promise != "broadcast"
        }
        return found | self._broadcast

    def step_ended(self) -> None:
        self._broadcast.clear()

    def _syncing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _sync_buffers(wrapper: Any) -> Any:
            result = original(wrapper)
            with self.shield, private.unobserved(), torch.no_grad():
                if self.is_wanted():
                    for each in self._all():
                        if each.promise == "broadcast" and each.name not in self._broadcast:
                            self._broadcast[each.name] = tensor_digest(each.tensor)
            return result

        return _sync_buffers

    def _all(self) -> Iterator[_Buffer]:
        listed = outermost({each: self.modules.get(each) or "" for each in list(self.modules)})
        for label, module in listed:
            prefix = f"{label}." if len(listed) > 1 else ""
            yield from _buffers(module, prefix, None)


def _buffers(
    module: nn.Module, prefix: str, wrapper: DistributedDataParallel | None
) -> Iterator[_Buffer]:
    """The buffers of ``module`` and of those inside it, that can be compared."""
    if isinstance(module, DistributedDataParallel):
        yield from _buffers(module.module, prefix, module)
        return
    for name, tensor in module.named_buffers(recurse=False):
        found = _judged(module, prefix + name, tensor, wrapper)
        if found is not None:
            yield found
    for name, child in module.named_children():
        part = plain_name(name)
        yield from _buffers(child, f"{prefix}{part}." if part else prefix, wrapper)


def _judged(
    module: nn.Module, name: str, tensor: torch.Tensor, wrapper: DistributedDataParallel | None
) -> _Buffer | None:
    if wrapper is not None and _is_broadcast(wrapper, name):
        return _Buffer(name, tensor, "broadcast", wrapper.process_group)
    if isinstance(module, nn.SyncBatchNorm):
        return _Buffer(name, tensor, "synchronised", module.process_group)
    if isinstance(module, _NormBase):
        return None
    return _Buffer(name, tensor, "none")


def _is_broadcast(wrapper: DistributedDataParallel, name: str) -> bool:
    ignored: Iterable[str] = getattr(wrapper, "parameters_to_ignore", ())
    has_any = bool(getattr(wrapper, "modules_buffers", ()))
    return bool(wrapper.broadcast_buffers) and has_any and name not in ignored
