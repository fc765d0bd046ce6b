"""Which steps are observed so that there is a graph to show of every kind of step."""

from __future__ import annotations

from typing import Final

LEARNED_STEPS: Final = 2
"""The ops of the first steps are observed, so that there is a graph to show: the first step
differs from those that follow, whose optimizers have their state."""
_MOST_STEPS: Final = 30
"""To wait for an optimizer to step again."""
_MOST_OPTIMIZERS: Final = 8


class Learning:
    """The first steps, and of an optimizer that steps for the first time after them the next one of
    its steps: that of a GAN's generator, which may come after any number of its critic's."""

    def __init__(self, first_step: int) -> None:
        self._until = first_step + LEARNED_STEPS
        self._graphs: dict[str, int] = {}
        self._met: set[str] = set()
        self._missing: set[str] = set()

    def wants(self, step: int) -> bool:
        return step < self._until

    def step_over(
        self, step: int, optimizer: str, graph: int | None, *, is_observed: bool
    ) -> int | None:
        """A step of ``optimizer`` is over, ``graph`` the last that was seen. The graph that ran:
        of a step that was not observed the one of that optimizer's last step that was."""
        if is_observed and graph is not None:
            self._graphs[optimizer] = graph
            if optimizer in self._missing:
                self._missing.remove(optimizer)
                if not self._missing:
                    self._until = step + 1
            return graph
        known = self._graphs.get(optimizer)
        if known is None and optimizer not in self._met and len(self._met) < _MOST_OPTIMIZERS:
            self._met.add(optimizer)
            self._missing.add(optimizer)
            self._until = step + 1 + _MOST_STEPS
        return graph if known is None else known
