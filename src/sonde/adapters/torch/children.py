"""Processes that a program starts with ``torch.multiprocessing`` to train in: observed too.

``torch.multiprocessing.spawn(train, nprocs=2)`` runs ``train`` in processes of its own. Each of
them is observed as the capture of its parent says, as the rank that is its number, and dumps to
its own ``rank_N``. Workers of a DataLoader are not touched: they are started in another way.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch.multiprocessing

from sonde.adapters.torch.adapter import StepBy
from sonde.adapters.torch.compile_gate import CompiledMode
from sonde.capture.config import CaptureConfig
from sonde.debugger.settings import DebuggerOptions


@dataclass(frozen=True, slots=True)
class ObservedFunction:
    """A function that is observed where it runs: in the process numbered by its first argument."""

    function: Callable[..., Any]
    config: CaptureConfig | None
    step_by: StepBy
    compiled: CompiledMode
    debugger: DebuggerOptions | None = None

    def __call__(self, number: int, *args: Any) -> Any:
        from sonde.adapters.torch.attach import attach

        rank = os.environ.get("RANK", "")
        with attach(
            self.config,
            starts_at_once=False,
            step_by=self.step_by,
            rank=int(rank) if rank.isdigit() else number,
            debugger=self.debugger,
            compiled=self.compiled,
        ):
            return self.function(number, *args)


@contextmanager
def observed_children(
    config: CaptureConfig | None,
    step_by: StepBy,
    compiled: CompiledMode,
    debugger: DebuggerOptions | None = None,
    hand_over: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Observe what ``torch.multiprocessing`` starts in this block as ``config`` says, and debug
    it as ``debugger`` says; ``hand_over`` is called before."""
    # The function of this name hides the module in its package.
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes
    if config is None and debugger is None:
        yield
        return

    @functools.wraps(original)
    def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not isinstance(fn, ObservedFunction):
            fn = ObservedFunction(
                fn, config, step_by, compiled, _for_children(debugger, args, kwargs)
            )
            hand_over()
        return original(fn, *args, **kwargs)

    known: tuple[Any, ...] = (module, torch.multiprocessing)
    places = [place for place in known if _starts(place) is original]
    for place in places:
        place.start_processes = start_processes
    try:
        yield
    finally:
        for place in places:
            if _starts(place) is start_processes:
                place.start_processes = original


def _for_children(
    debugger: DebuggerOptions | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> DebuggerOptions | None:
    """What children are told: how many they are, and whose program they run."""
    if debugger is None:
        return None
    count = kwargs.get("nprocs", args[1] if len(args) > 1 else 1)
    return replace(
        debugger,
        world_size=debugger.world_size or (count if isinstance(count, int) else 0),
        script=debugger.script or sys.argv[0],
        arguments=debugger.arguments if debugger.script else tuple(sys.argv[1:]),
    )


def _starts(place: Any) -> Any:
    return getattr(place, "start_processes", None)
