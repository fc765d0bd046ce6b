"""How long the steps of a training take, with the debugger and without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """Seconds of steps, without those in which the training stood still. Used from the training
    thread only.

    ``own`` tells how many seconds of the debugger's own work there were so far; it goes on while
    the training stands still inside such work. ``clock`` tells the time.
    """

    def __init__(
        self, own: Callable[[], float], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._clock = clock
        self._own = own
        self._at_end = 0.0
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._began, self._own_before = self._clock(), self._own()
        self._stood_still = self._own_still = 0.0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        began, own = self._clock(), self._own()
        try:
            yield
        finally:
            self._stood_still += self._clock() - began
            self._own_still += self._own() - own

    def step_over(self) -> tuple[float, float]:
        """The seconds of the step that is over, as it was, and as it would have been without the
        debugger; what is done until ``next_step`` is work of the debugger."""
        taken = self._clock() - self._began - self._stood_still
        own = self._own() - self._own_before - self._own_still
        self.begin()
        # What is judged now takes about as long as it did a step before.
        return max(taken + self._at_end, 0.0), max(taken - own, 0.0)

    def next_step(self) -> None:
        self._at_end = self._clock() - self._began - self._stood_still
        self.begin()
