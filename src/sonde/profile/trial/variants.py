"""The changes that can be tried on a program without editing it."""

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


@dataclass(slots=True)
class Applied:
    """The lines at which a variant changed something, and a note on it."""

    places: Places
    sources: list[Source | None] = field(default_factory=list)
    note: str = ""
    after_first_step: Callable[[], None] = lambda: None

    def here(self) -> None:
        """Record that the line of the user's code that runs now is changed."""
        self.sources.append(self.places.innermost(sys._getframe(1)))


@contextmanager
def variant(name: str, applied: Applied) -> Iterator[None]:
    """Run a block with a variant such as ``"amp"`` or ``"workers=4"``; ``""`` changes nothing."""
    kind, _, value = name.partition("=")
    with ExitStack() as undo:
        if kind:
            apply, _ = _VARIANTS[kind]
            apply(applied, value, undo)
        yield


def _compile(applied: Applied, _: str, undo: ExitStack) -> None:
    """Compile each module that the program calls directly in the first step.

    The patch is removed while a module runs, so that it is not compiled, too.
    """
    done: set[int] = set()
    is_open = True

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        patch.restore()
        try:
            if id(module) not in done and _trains(module):
                done.add(id(module))
                module.compile()
                applied.here()
            return patch.original(module, *args, **kwargs)
        finally:
            if is_open:
                patch.install()

    def close() -> None:
        nonlocal is_open
        is_open = False
        patch.restore()

    patch = Patch(nn.Module, "__call__", call)
    patch.install()
    applied.after_first_step = close
    undo.callback(close)


def _amp(applied: Applied, _: str, undo: ExitStack) -> None:
    """Autocast from the first call of a module to the beginning of backward."""
    original = nn.Module.__call__
    casting = undo.enter_context(ExitStack())
    is_on = False

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_on
        if not is_on and _trains(module):
            device = next(module.parameters()).device.type
            if torch.is_autocast_enabled(device):
                applied.note = "the program uses autocast already"
            else:
                casting.enter_context(torch.autocast(device, dtype=torch.bfloat16))
                is_on = True
                if not applied.sources:
                    applied.here()
        return original(module, *args, **kwargs)

    def stop(_: Any) -> None:
        nonlocal is_on
        is_on = False
        casting.close()

    undo.enter_context(private.watching_backward(stop, lambda: None))
    replace(nn.Module, "__call__", call, undo)


def _channels_last(applied: Applied, _: str, undo: ExitStack) -> None:
    """Convert the network's weights once, and its images at every call."""
    original = nn.Module.__call__
    done: set[int] = set()
    is_inside = False

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_inside
        if is_inside or not any(each.dim() == 4 for each in module.parameters()):
            return original(module, *args, **kwargs)
        if id(module) not in done:
            done.add(id(module))
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            applied.here()
        is_inside = True
        try:
            return original(module, *map(_to_channels_last, args), **kwargs)
        finally:
            is_inside = False

    replace(nn.Module, "__call__", call, undo)


def _workers(applied: Applied, value: str, undo: ExitStack) -> None:
    _set_argument(applied, undo, DataLoader, "num_workers", int(value))


def _buckets(applied: Applied, value: str, undo: ExitStack) -> None:
    _set_argument(applied, undo, nn.parallel.DistributedDataParallel, "bucket_cap_mb", float(value))


def _fused(applied: Applied, _: str, undo: ExitStack) -> None:
    """Use the fused form of torch's optimizers, unless the program chooses another form."""
    kinds = {
        kind
        for kind in vars(torch.optim).values()
        if inspect.isclass(kind)
        and "__init__" in kind.__dict__
        and "fused" in inspect.signature(kind.__init__).parameters
    }
    for kind in kinds:
        _set_argument(applied, undo, kind, "fused", True, unless=("foreach", "differentiable"))


def _threads(applied: Applied, value: str, undo: ExitStack) -> None:
    original = torch.set_num_threads
    undo.callback(original, torch.get_num_threads())
    original(int(value))
    applied.sources.append(None)
    replace(torch, "set_num_threads", lambda nthreads: applied.here(), undo)


def _set_argument(
    applied: Applied,
    undo: ExitStack,
    kind: type,
    name: str,
    value: Any,
    *,
    unless: tuple[str, ...] = (),
) -> None:
    """Create objects of ``kind`` with this value of one argument, unless others are given."""
    original = kind.__dict__["__init__"]
    signature = inspect.signature(original)

    def init(this: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(this, *args, **kwargs)
        given = bound.arguments
        if given.get(name) != value and not any(given.get(other) for other in unless):
            given[name] = value
            applied.here()
        original(*bound.args, **bound.kwargs)

    wrap(kind, "__init__", lambda _: init, undo)


def _trains(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())


def _to_channels_last(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value


# What applies each variant, and how to make the change in the program.
_VARIANTS: dict[str, tuple[Callable[[Applied, str, ExitStack], None], str]] = {
    "compile": (_compile, "model = torch.compile(model)"),
    "amp": (
        _amp,
        "with torch.autocast(device, dtype=torch.bfloat16): around the forward pass",
    ),
    "channels_last": (
        _channels_last,
        "model.to(memory_format=torch.channels_last), and the images too",
    ),
    "workers": (_workers, "DataLoader(..., num_workers={value})"),
    "fused": (_fused, "the optimizer with fused=True"),
    "threads": (_threads, "torch.set_num_threads({value}), or OMP_NUM_THREADS={value}"),
    "buckets": (_buckets, "DistributedDataParallel(..., bucket_cap_mb={value})"),
}
NAMES = tuple(_VARIANTS)


def advice(name: str) -> str:
    """How to make the change of a variant such as ``"workers=4"`` in the program."""
    kind, _, value = name.partition("=")
    return _VARIANTS[kind][1].format(value=value)
