"""How long the steps of a training take, with the debugger and without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepTimer:
    """Measures the seconds of steps, pauses left out. Used from the training thread only.

    A step is measured from the end of the work that the debugger does after the step before it.
    ``clock`` tells the time.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds_between = 0.0
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._began = self._clock()
        self._paused_seconds = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done in this block: the training is paused."""
        began = self._clock()
        try:
            yield
        finally:
            self._paused_seconds += self._clock() - began

    def step_ended(self) -> tuple[float, float]:
        """The seconds of the step that is over: with the debugger's work after it, and without.

        That work is about to begin, and lasts until ``next_step``: it takes about as long as after
        the step before.
        """
        seconds = self._elapsed()
        self.begin()
        return seconds + self._seconds_between, seconds

    def next_step(self) -> None:
        """The debugger's work after a step is done, and the next step begins."""
        self._seconds_between = self._elapsed()
        self.begin()

    def _elapsed(self) -> float:
        return max(self._clock() - self._began - self._paused_seconds, 0.0)
