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
from dataclasses import dataclass
from typing import Any

import torch.multiprocessing

from sonde.adapters.torch.adapter import StepBy
from sonde.capture.config import CaptureConfig


@dataclass(frozen=True, slots=True)
class ObservedFunction:
    """A function that is observed where it runs: in the process numbered by its first argument."""

    function: Callable[..., Any]
    config: CaptureConfig
    step_by: StepBy

    def __call__(self, number: int, *args: Any) -> Any:
        from sonde.adapters.torch.attach import attach

        rank = os.environ.get("RANK", "")
        with attach(
            self.config,
            starts_at_once=False,
            step_by=self.step_by,
            rank=int(rank) if rank.isdigit() else number,
        ):
            return self.function(number, *args)


@contextmanager
def observed_children(config: CaptureConfig | None, step_by: StepBy) -> Iterator[None]:
    """Observe what ``torch.multiprocessing`` starts in this block as ``config`` says."""
    # The function of this name hides the module in its package.
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes
    if config is None:
        yield
        return
    seen = config

    @functools.wraps(original)
    def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not isinstance(fn, ObservedFunction):
            fn = ObservedFunction(fn, seen, step_by)
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


def _starts(place: Any) -> Any:
    return getattr(place, "start_processes", None)
