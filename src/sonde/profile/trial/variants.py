"""The changes that can be tried on a program from outside."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from sonde.core.graph import Source
from sonde.core.patching import Patch, replace, wrap
from sonde.profile.places import Places
from sonde.profile.record import private

NAMES = ("compile", "amp", "channels_last", "workers", "fused", "threads", "buckets")

ADVICE = {
    "compile": "model = torch.compile(model)",
    "amp": "with torch.autocast(device, dtype=torch.bfloat16): round the forward pass",
    "channels_last": "model.to(memory_format=torch.channels_last), and the images too",
    "workers": "DataLoader(..., num_workers={value})",
    "fused": "the optimizer with fused=True",
    "threads": "torch.set_num_threads({value}), or OMP_NUM_THREADS={value}",
    "buckets": "DistributedDataParallel(..., bucket_cap_mb={value})",
}


@dataclass(slots=True)
class Applied:
    """Where a variant changed something, and what it has to say about that."""

    places: Places
    sources: list[Source | None] = field(default_factory=list)
    note: str = ""
    undo_after_first_step: list[Callable[[], None]] = field(default_factory=list)

    def here(self) -> None:
        """The change is applied for the line of the user's code that runs now."""
        self.sources.append(self.places.innermost(sys._getframe(1)))


@contextmanager
def variant(name: str, applied: Applied) -> Iterator[None]:
    """Run a block with a variant such as ``"amp"`` or ``"workers=4"``; ``""`` changes nothing."""
    kind, _, value = name.partition("=")
    with ExitStack() as undo:
        if kind:
            undo.enter_context(_VARIANTS[kind](applied, value))
        yield


@contextmanager
def _compile(applied: Applied, _: str) -> Iterator[None]:
    """Compile each module that is called from outside any in the first step.

    The way in is closed while compiled code runs, so that it does not find us in its way.
    """
    original = nn.Module.__call__
    done: set[int] = set()

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        patch.restore()
        try:
            if id(module) not in done and _trains(module):
                done.add(id(module))
                module.compile()
                applied.here()
            return original(module, *args, **kwargs)
        finally:
            if is_open:
                patch.install()

    is_open = [True]

    def close() -> None:
        is_open.clear()
        patch.restore()

    applied.undo_after_first_step.append(close)
    patch = Patch(nn.Module, "__call__", call)
    patch.install()
    try:
        yield
    finally:
        close()


@contextmanager
def _amp(applied: Applied, _: str) -> Iterator[None]:
    """Autocast from the first call of a module to the beginning of backward."""
    original = nn.Module.__call__
    casting = ExitStack()
    is_on: list[bool] = []

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not is_on and _trains(module):
            device = next(module.parameters()).device.type
            if torch.is_autocast_enabled(device):
                applied.note = "the program uses autocast already"
            else:
                casting.enter_context(torch.autocast(device, dtype=torch.bfloat16))
                is_on.append(True)
                if not applied.sources:
                    applied.here()
        return original(module, *args, **kwargs)

    def stop(*_: Any) -> None:
        is_on.clear()
        casting.close()

    with private.watching_backward(stop, lambda: None), ExitStack() as undo:
        replace(nn.Module, "__call__", call, undo)
        yield
    casting.close()


@contextmanager
def _channels_last(applied: Applied, _: str) -> Iterator[None]:
    """The network's weights once, its images at every call."""
    original = nn.Module.__call__
    done: set[int] = set()
    inside: list[bool] = []

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if inside or not any(each.dim() == 4 for each in module.parameters()):
            return original(module, *args, **kwargs)
        if id(module) not in done:
            done.add(id(module))
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            applied.here()
        inside.append(True)
        try:
            return original(module, *map(_to_channels_last, args), **kwargs)
        finally:
            inside.pop()

    with ExitStack() as undo:
        replace(nn.Module, "__call__", call, undo)
        yield


@contextmanager
def _workers(applied: Applied, value: str) -> Iterator[None]:
    with _with_argument(applied, DataLoader, "num_workers", int(value)):
        yield


@contextmanager
def _buckets(applied: Applied, value: str) -> Iterator[None]:
    kind = nn.parallel.DistributedDataParallel
    with _with_argument(applied, kind, "bucket_cap_mb", float(value)):
        yield


@contextmanager
def _fused(applied: Applied, _: str) -> Iterator[None]:
    """Every optimizer of torch's that has a fused form gets it, unless told otherwise."""
    kinds = {
        kind
        for kind in vars(torch.optim).values()
        if inspect.isclass(kind)
        and "__init__" in kind.__dict__
        and "fused" in inspect.signature(kind.__init__).parameters
    }
    with ExitStack() as undo:
        for kind in kinds:
            undo.enter_context(
                _with_argument(applied, kind, "fused", True, unless=("foreach", "differentiable"))
            )
        yield


@contextmanager
def _threads(applied: Applied, value: str) -> Iterator[None]:
    count = int(value)
    original = torch.set_num_threads
    before = torch.get_num_threads()

    def set_num_threads(nthreads: int) -> None:
        applied.here()

    original(count)
    applied.sources.append(None)
    with ExitStack() as undo:
        undo.callback(original, before)
        replace(torch, "set_num_threads", set_num_threads, undo)
        yield


@contextmanager
def _with_argument(
    applied: Applied, kind: type, name: str, value: Any, *, unless: tuple[str, ...] = ()
) -> Iterator[None]:
    """Objects of ``kind`` are made with another value of one argument."""
    original = kind.__dict__["__init__"]
    signature = inspect.signature(original)

    def init(this: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(this, *args, **kwargs)
        given = bound.arguments
        if given.get(name) != value and not any(given.get(other) for other in unless):
            given[name] = value
            applied.here()
        original(*bound.args, **bound.kwargs)

    with ExitStack() as undo:
        wrap(kind, "__init__", lambda _: init, undo)
        yield


def _trains(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())


def _to_channels_last(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value


_VARIANTS: dict[str, Callable[[Applied, str], Any]] = {
    "compile": _compile,
    "amp": _amp,
    "channels_last": _channels_last,
    "workers": _workers,
    "fused": _fused,
    "threads": _threads,
    "buckets": _buckets,
}
