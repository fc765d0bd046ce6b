"""Times the steps and records the losses of a trial run, in the process that runs it."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from sonde.core.files.atomic_file import write_whole
from sonde.core.graph import Source
from sonde.core.observation_variables import is_first_rank
from sonde.profile.places import Places
from sonde.profile.record import private
from sonde.profile.record.recorder import WindowDone
from sonde.profile.trial.variants import Applied, variant


class TrialOrder(msgspec.Struct, frozen=True):
    """What a trial run does: run ``warm_up`` and then ``steps`` steps, and write ``out``."""

    variant: str
    warm_up: int
    steps: int
    out: str


class TrialResult(msgspec.Struct, frozen=True):
    """The result of a trial run: seconds and loss of each step after the warm-up.

    A loss that is not finite is None. ``applied`` is how often the variant changed something.
    """

    variant: str
    seconds: tuple[float, ...]
    losses: tuple[float | None, ...]
    applied: int
    place: Source | None
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
        """Run the program in this context; the result is written at its end."""
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
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
        self._losses.append(self._loss if math.isfinite(self._loss) else None)
        self._loss = 0.0
        if len(self._seconds) == 1:
            self._applied.after_first_step()
        if len(self._seconds) >= self._order.warm_up + self._order.steps:
            raise WindowDone
        self._begin = time.perf_counter()

    def _backward_begins(self, outputs: Sequence[Any]) -> None:
        for each in outputs:
            if isinstance(each, torch.Tensor) and each.numel() == 1:
                self._loss += float(each.detach())

    def _write(self) -> None:
        if not is_first_rank(os.environ):
            return
        warm = self._order.warm_up
        result = TrialResult(
            variant=self._order.variant,
            seconds=tuple(self._seconds[warm:]),
            losses=tuple(self._losses[warm:]),
            applied=len(self._applied.sources),
            place=next(filter(None, self._applied.sources), None),
            note=self._applied.note,
        )
        write_whole(Path(self._order.out), msgspec.json.encode(result))
