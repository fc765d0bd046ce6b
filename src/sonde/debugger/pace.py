"""How long the steps of a training take, with the debugger and without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """Seconds of steps, without those in which the training stood still. Used from the training
    thread only.

    A step whose ops are observed takes as long as it takes, with what is judged at its end; one
    whose ops are not, as long as it would without the debugger.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._stood_still = 0.0
        self._own = 0.0
        self._at_end = 0.0

    def begin(self) -> None:
        """The first step begins."""
        self._began, self._stood_still, self._own = self._clock(), 0.0, 0.0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._stood_still += self._clock() - began

    @contextmanager
    def working(self) -> Iterator[None]:
        """What the debugger does in this block is no part of a step without it."""
        began, still = self._clock(), self._stood_still
        try:
            yield
        finally:
            self._own += self._clock() - began - (self._stood_still - still)

    def step_over(self, *, is_observed: bool) -> float:
        """The seconds of the step that is over; what is done until ``next_step`` is work of the
        debugger."""
        now = self._clock()
        taken = now - self._began - self._stood_still
        # What is judged now takes about as long as it did a step before.
        seconds = taken + self._at_end if is_observed else taken - self._own
        self._began, self._stood_still, self._own = now, 0.0, 0.0
        return max(seconds, 0.0)

    def next_step(self) -> None:
        now = self._clock()
        self._at_end = now - self._began - self._stood_still
        self._began, self._stood_still = now, 0.0
