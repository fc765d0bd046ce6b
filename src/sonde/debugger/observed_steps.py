"""Chooses the steps that are observed so that the page has a graph of every kind of step."""

from __future__ import annotations

from typing import Final

LEARNED_STEPS: Final = 2
"""The first steps are observed. The first one alone would not do: in it optimizers create their
state, so that its graph differs from those that follow."""
_MOST_STEPS: Final = 30
"""How long to observe steps while waiting for an optimizer to step again."""
_MOST_OPTIMIZERS: Final = 8


class ObservedSteps:
    """The first steps, and the second step of an optimizer that steps for the first time later,
    such as a GAN's generator, which may step after any number of steps of the critic."""

    def __init__(self, first_step: int) -> None:
        self._until = first_step + LEARNED_STEPS
        self._graphs: dict[str, int] = {}
        self._known: set[str] = set()
        self._missing: set[str] = set()

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
