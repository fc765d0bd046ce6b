"""Which steps are observed, and how long steps take, with the debugger and without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LEARNED_STEPS: Final = 2
"""The first steps are observed. The first one alone would not do: in it optimizers create their
state, so that its graph differs from those that follow."""
_MOST_STEPS: Final = 30
"""How long to observe steps while waiting for an optimizer to step again."""
_MOST_OPTIMIZERS: Final = 8


class ObservedSteps:
    """Chooses the steps that are observed so that the page has a graph of every kind of step: the
    first steps, and the second step of an optimizer that steps for the first time later, such as
    a GAN's generator, which may step after any number of steps of the critic."""

    def __init__(self, first_step: int) -> None:
        self._until = first_step + LEARNED_STEPS
        self._graphs: dict[str, int] = {}
        self._known: set[str] = set()
        self._missing: set[str] = set()

    def begin_at(self, step: int) -> None:
        """Number the first step, which has not begun, ``step``."""
        self._until = step + LEARNED_STEPS

    def wants(self, step: int) -> bool:
        """Whether to observe ``step``."""
        return step < self._until

    def step_over(
        self, step: int, optimizer: str, graph: int | None, *, is_observed: bool
    ) -> int | None:
        """Note the end of a step of ``optimizer``; ``graph`` is the last that was observed.

        Returns the graph of that step: if the step was not observed, the graph of the last
        observed step of the same optimizer.
        """
        if is_observed and graph is not None:
            self._graphs[optimizer] = graph
            if optimizer in self._missing:
                self._missing.remove(optimizer)
                if not self._missing:
                    self._until = step + 1
            return graph
        last = self._graphs.get(optimizer)
        if last is None and optimizer not in self._known and len(self._known) < _MOST_OPTIMIZERS:
            self._known.add(optimizer)
            self._missing.add(optimizer)
            self._until = step + 1 + _MOST_STEPS
        return graph if last is None else last


class SpeedMeasurement:
    """Lets one step run unobserved when the user asks, to measure the speed without Sonde.

    Watchpoints are not evaluated on the ops and gradients of that step. Used from the training
    thread only.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._step: int | None = None

    def ask(self, first: int) -> None:
        """Leave a step unobserved: ``first`` or, if that is over or needed, a later one."""
        self._first = first

    def begin_step(self, step: int, *, may_skip: bool) -> None:
        """Step ``step`` begins; ``may_skip``: at most watchpoints and recordings need it."""
        if self._first is not None and step >= self._first and may_skip:
            self._first, self._step = None, step

    def is_at(self, step: int) -> bool:
        """Whether ``step`` is the one that runs unobserved."""
        return self._step == step


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
        self._own_seconds = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done in this block: the training is paused."""
        began = self._clock()
        try:
            yield
        finally:
            self._paused_seconds += self._clock() - began

    def leave_out(self, seconds: float) -> None:
        """Count ``seconds`` of the running step as work of the debugger."""
        self._own_seconds += seconds

    def step_ended(self) -> tuple[float, float]:
        """The seconds of the step that is over: with the debugger's work after it, and without.

        That work is about to begin, and lasts until ``next_step``: it takes about as long as after
        the step before.
        """
        seconds, own = self._elapsed(), self._own_seconds
        self.begin()
        return seconds + self._seconds_between, max(seconds - own, 0.0)

    def next_step(self) -> None:
        """The debugger's work after a step is done, and the next step begins."""
        self._seconds_between = self._elapsed()
        self.begin()

    def _elapsed(self) -> float:
        return max(self._clock() - self._began - self._paused_seconds, 0.0)
