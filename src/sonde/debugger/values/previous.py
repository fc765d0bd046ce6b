"""Copies of parameters as they were one step before, within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sonde.core.sink import TensorView
from sonde.core.statistics import Statistics
from sonde.debugger.trainee import Held, Snapshot, Trainee
from sonde.watch.conditions import Memory, PreviousValue


class PreviousValues:
    """Copies of parameters, renewed in place at every step. Used from the training thread.

    ``is_full`` is called once, with a message, when a copy does not fit into the budget.
    """

    def __init__(self, trainee: Trainee, budget_bytes: int, is_full: Callable[[str], None]) -> None:
        self._trainee = trainee
        self._budget = budget_bytes
        self._is_full = is_full
        self._is_reported = False
        self.used_bytes = 0
        self._copies: dict[str, tuple[int, Snapshot]] = {}
        self._statistics: dict[str, tuple[int, Statistics]] = {}
        self._refused: set[str] = set()

    def find(self, name: str) -> tuple[int, TensorView] | None:
        """The step and the value of the copy of ``name``."""
        found = self._copies.get(name)
        return None if found is None else (found[0], found[1].view)

    def value(self, name: str) -> PreviousValue:
        """The value of the previous step, as far as it is kept."""
        copy = self.find(name)
        memory = None if copy is None else self._trainee.memory(copy[1])
        known = memory if isinstance(memory, Memory) else None
        _, statistics = self._statistics.get(name, (-1, None))
        if name not in self._refused:
            return PreviousValue(known, statistics)
        megabytes = self._budget // (1 << 20)
        why = f"its value of the step before did not fit into the {megabytes} MB for kept values"
        return PreviousValue(known, statistics, why)

    def note(self, name: str, step: int, statistics: Statistics) -> None:
        """Keep the statistics of ``name`` in ``step``; they do not count against the budget."""
        self._statistics[name] = (step, statistics)

    def forget_statistics(self, before: int) -> None:
        """Forget statistics of steps before ``before``. A new watchpoint compares with the step
        before it, and older statistics are of steps in which the tensor was not watched."""
        self._statistics = {
            name: known for name, known in self._statistics.items() if known[0] >= before
        }

    def renew(self, wanted: Iterable[Held], step: int) -> None:
        """Copy the values of ``wanted``, as step ``step`` is about to use them, and drop all other
        copies."""
        kept = list(wanted)
        self.add(kept, step)
        for name in self._copies.keys() - {held.name for held in kept}:
            self._drop(name)

    def add(self, wanted: Iterable[Held], step: int) -> None:
        """Copy the values of ``wanted`` in addition to those that are copied."""
        for held in wanted:
            view = held.value()
            known = self._copies.get(held.name)
            if known is not None and known[1].renew(view):
                self._copies[held.name] = (step, known[1])
                continue
            self._drop(held.name)
            if view.problem is not None:
                continue
            if self.used_bytes + view.nbytes > self._budget:
                self._refuse(held.name)
                continue
            copy = self._trainee.snapshot(view)
            self.used_bytes += copy.nbytes
            self._copies[held.name] = (step, copy)

    def _drop(self, name: str) -> None:
        known = self._copies.pop(name, None)
        if known is not None:
            self.used_bytes -= known[1].nbytes

    def _refuse(self, name: str) -> None:
        self._refused.add(name)
        if not self._is_reported:
            self._is_reported = True
            self._is_full(
                f"the values of the previous step need more than the {self._budget // (1 << 20)} "
                f"MB for kept values; {name} and others are not kept, and conditions that compare "
                "with the previous step are not evaluated for them: raise SONDE_DEBUGGER_BUDGET, "
                "or watch fewer weights"
            )
