"""The clock and the loss of a trial run, inside the process that runs it."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from sonde.profile.analyse.tables import place_of
from sonde.profile.document import CodePlace
from sonde.profile.places import Places
from sonde.profile.record import private
from sonde.profile.record.recorder import WindowDone
from sonde.profile.trial.variants import Applied, variant


class TrialOrder(msgspec.Struct, frozen=True):
    """What one trial run is to do: run ``warm_up`` and then ``steps`` steps, and write ``out``."""

    variant: str
    warm_up: int
    steps: int
    out: str


class TrialResult(msgspec.Struct, frozen=True):
    """What a trial run measured: seconds and loss of each step after the warm-up.

    A loss that is not finite is None. ``first_seconds`` is how long the warm-up took.
    """

    variant: str
    seconds: tuple[float, ...]
    losses: tuple[float | None, ...]
    first_seconds: float
    applied: int
    place: CodePlace | None
    note: str


class TrialClock:
    """Times steps and ends the program after the last one; used from the training thread."""

    def __init__(self, order: TrialOrder, places: Places) -> None:
        self._order = order
        self._applied = Applied(places)
        self._seconds: list[float] = []
        self._losses: list[float | None] = []
        self._loss = 0.0
        self._begin = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The program runs in this block; the result is written when it is left."""
        torch.manual_seed(0)
        random.seed(0)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(0)
        with (
            variant(self._order.variant, self._applied),
            private.watching_backward(self._backward_begins, lambda: None),
        ):
            self._begin = time.perf_counter()
            try:
                yield
            finally:
                self._write()

    def step_ended(self) -> None:
        now = time.perf_counter()
        self._seconds.append(now - self._begin)
        self._losses.append(self._loss if _is_finite(self._loss) else None)
        self._loss = 0.0
        if len(self._seconds) == 1:
            for undo in self._applied.undo_after_first_step:
                undo()
        if len(self._seconds) >= self._order.warm_up + self._order.steps:
            raise WindowDone
        self._begin = time.perf_counter()

    def _backward_begins(self, outputs: Sequence[Any]) -> None:
        for each in outputs:
            if isinstance(each, torch.Tensor) and each.numel() == 1:
                self._loss += float(each.detach())

    def _write(self) -> None:
        if os.environ.get("RANK", "0") != "0":
            return
        warm = self._order.warm_up
        sources = [source for source in self._applied.sources if source is not None]
        result = TrialResult(
            variant=self._order.variant,
            seconds=tuple(self._seconds[warm:]),
            losses=tuple(self._losses[warm:]),
            first_seconds=sum(self._seconds[:warm]),
            applied=len(self._applied.sources),
            place=place_of(sources[0]) if sources else None,
            note=self._applied.note,
        )
        Path(self._order.out).write_bytes(msgspec.json.encode(result))


def _is_finite(value: float) -> bool:
    return value - value == 0
