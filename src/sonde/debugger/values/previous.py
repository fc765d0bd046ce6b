"""Copies of parameters as they were one step before, within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from sonde.core.sink import TensorView
from sonde.core.statistics import Statistics
from sonde.debugger.trainee import Held, Snapshot, Trainee
from sonde.watch.conditions import Memory, PreviousValue


class PreviousValues:
    """Copies of parameters, renewed in place at every step. Used from the training thread.

    ``opened``: the parameters whose values the user has looked at.

    ``is_full`` is called once, with a message, when a copy does not fit into the budget.
    """

    def __init__(self, trainee: Trainee, budget_bytes: int, is_full: Callable[[str], None]) -> None:
        self._trainee = trainee
        self._budget = self.budget_bytes = budget_bytes
        self._is_full = is_full
        self._is_reported = False
        self.used_bytes = 0
        self._copies: dict[str, tuple[int, Snapshot]] = {}
        # Of parameters that the user has opened, also the copies of the step before. While a step
        # runs its weights are compared with those.
        self._opened: set[str] = set()
        self._older: dict[str, tuple[int, Snapshot]] = {}
        self._statistics: dict[str, tuple[int, Statistics]] = {}
        self._refused: set[str] = set()

    def find(self, name: str, step: int | None = None) -> tuple[int, TensorView] | None:
        """The step and the value of the copy of ``name``, None: of the latest copy."""
        for copies in (self._copies, self._older):
            found = copies.get(name)
            if found is not None and step in (None, found[0]):
                return found[0], found[1].view
        return None

    def note_opened(self, name: str) -> None:
        """Keep the values of ``name`` of the last two steps, from the next step on."""
        self._opened.add(name)

    def open(self, held: Held, step: int) -> None:
        """Keep the values of ``held`` of the last two steps, from now on: it has the value of step
        ``step``."""
        self.note_opened(held.name)
        if self.find(held.name, step) is None:
            self._renew(held, step)

    @property
    def opened(self) -> Collection[str]:
        return self._opened

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
        names = {held.name for held in kept}
        for copies in (self._copies, self._older):
            for name in copies.keys() - names:
                self._drop(name, copies)

    def add(self, wanted: Iterable[Held], step: int) -> None:
        """Copy the values of ``wanted`` in addition to those that are copied."""
        for held in wanted:
            self._renew(held, step)

    def _renew(self, held: Held, step: int) -> None:
        """Copy the value of ``held``. Of an opened one the copy that was the latest stays, and the
        one before that is overwritten."""
        name, view = held.name, held.value()
        known = self._copies.get(name)
        if known is not None and known[0] != step and name in self._opened:
            older = self._older.pop(name, None)
            self._older[name] = self._copies.pop(name)
            if older is not None:
                self._copies[name] = older
        known = self._copies.get(name)
        if known is not None and known[1].renew(view):
            self._copies[name] = (step, known[1])
            return
        self._drop(name, self._copies)
        if view.problem is not None:
            return
        if self.used_bytes + view.nbytes > self._budget:
            self._refuse(name)
            return
        copy = self._trainee.snapshot(view)
        self.used_bytes += copy.nbytes
        self._copies[name] = (step, copy)

    def _drop(self, name: str, copies: dict[str, tuple[int, Snapshot]]) -> None:
        known = copies.pop(name, None)
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
