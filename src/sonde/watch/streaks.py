"""Holds hits back until a watchpoint was met in several steps in a row."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from sonde.watch.hits import WatchpointHit
from sonde.watch.watchpoint import Watch

_Place = tuple[int, str, str, str, int]
"""Watchpoint, rule, op, direction, slot."""
_FLOATING = ("float", "bfloat", "complex")


FIRST_STEPS = 3
"""A row that begins within so many steps begins with its watchpoint: a network becomes known as it
runs, and its first step may not be observed whole."""


@dataclass(slots=True, eq=False)
class Streaks:
    """Counts, for each tensor of one rank, the steps in a row in which a watch was met.

    A step in which the tensor was evaluated and not met, or in which its op did not run, ends the
    row. A step in which a weight was not evaluated, because no optimizer had to change it, neither
    counts nor ends it. Example: 3 wanted, met in steps 4, 5, 7, 8, 9: step 9 is reported.
    """

    _last: dict[_Place, tuple[int, int]] = field(default_factory=dict)
    _step: int | None = None
    _steps: int = 0
    _since: dict[int, int] = field(default_factory=dict)
    _late: set[_Place] = field(default_factory=set)

    def begin_step(self, step: int) -> None:
        """May be called several times; steps may have gaps, since a dump need not have all."""
        if self._step is not None and step <= self._step:
            return
        rows = self._last.items()
        self._last = {place: row for place, row in rows if row[0] == self._step}
        self._step = step
        self._steps += 1

    def forget(self, watchpoint: int) -> None:
        """A watchpoint was set or changed: its steps count from now on."""
        self._since[watchpoint] = self._steps
        self._last = {place: row for place, row in self._last.items() if place[0] != watchpoint}
        self._late = {place for place in self._late if place[0] != watchpoint}

    def carry(self, watches: Collection[Watch], name: str) -> None:
        """Keep the rows of a weight on which these watches are not evaluated in this step."""
        carried = {(each.spec.id, each.label) for each in watches}
        for place, (_, count) in list(self._last.items()):
            if place[2] == name and place[:2] in carried and self._step is not None:
                self._last[place] = (self._step, count)

    def admit(self, hit: WatchpointHit, watch: Watch) -> WatchpointHit | None:
        """The hit, which says how many steps it has lasted; None if it is held back."""
        if hit.verdict != "hit":
            return hit
        if watch.floats_only and not hit.dtype.startswith(_FLOATING):
            return None
        wanted = watch.steps_in_a_row
        if wanted <= 1:
            return hit
        where = hit.where
        self.begin_step(where.step)
        place = (hit.watchpoint, hit.rule, where.op, where.io, where.slot)
        last, count = self._last.get(place, (-1, 0))
        if last != where.step:
            count += 1
            self._last[place] = (where.step, count)
            if count == 1 and self._steps > self._since.get(hit.watchpoint, 0) + FIRST_STEPS:
                self._late.add(place)
        if count < wanted or (watch.from_start and place in self._late):
            return None
        note = f"in {count} steps in a row"
        return replace(hit, message=f"{hit.message}; {note}" if hit.message else note)
