"""Which triggered steps are kept, and which are only counted; the line at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.text.number_text import count_text
from sonde.core.text.problem_line import ProblemLine
from sonde.monitor.triggers import Trigger, trigger_text


@dataclass(slots=True)
class TriggerCounts:
    """Counts triggered steps and decides which of them are kept.

    At most ``keep`` steps are kept. Of consecutive steps with the same trigger only the first is:
    once weights are NaN every step triggers, and the first one says most. ``kept`` are the
    directories, also of earlier steps that were gone back to; ``kept_steps`` counts triggered ones.
    ``is_repeated``: the last triggered step has a trigger of the step before it.
    """

    keep: int
    steps: int = 0
    triggered: int = 0
    first: Trigger | None = None
    kept: list[Path] = field(default_factory=list)
    kept_steps: int = 0
    is_repeated: bool = False
    _attempts: int = 0
    _last_step: int = -2
    _families: frozenset[tuple[str, str, str]] = frozenset()

    def wants(self, step: int, triggers: Sequence[Trigger]) -> bool:
        """Count a triggered step; whether it is to be kept."""
        self.triggered += step != self._last_step
        self.first = self.first or triggers[0]
        families = frozenset(each.family for each in triggers)
        is_asked_for = any(each.is_asked_for for each in triggers)
        is_same = step == self._last_step + 1 and bool(families & self._families)
        self._last_step, self._families = step, families
        self.is_repeated = is_same
        if self._attempts >= self.keep or (is_same and not is_asked_for):
            return False
        self._attempts += 1
        return True


def summary_lines(counts: TriggerCounts, directory: Path, *, has_file: bool) -> list[str]:
    """What the guard saw, for the end of the run, and which command comes next."""
    steps = count_text(counts.steps, "step")
    if not counts.steps:
        return [
            ProblemLine(
                "the guard saw no optimizer step, so that no signals were monitored",
                slug="guard-no-steps",
            )
        ]
    if counts.first is None:
        tail = f"sonde show {directory} shows their signals"
        if not has_file:
            tail = "their signals could not be written"
        return [f"guarded {steps}, nothing triggered; {tail}"]
    first = counts.first
    only = "" if counts.triggered == 1 else "first "
    lines = [
        f"guarded {steps}, {counts.triggered:,} of them triggered, {only}step {first.step}: "
        f"{trigger_text(first)}"
    ]
    if counts.kept:
        paths = ", ".join(map(str, counts.kept))
        rest = counts.triggered - counts.kept_steps
        lines[0] += f"; kept in {paths}" + (f", {rest:,} only counted" if rest else "")
        lines.append(f"next: sonde replay {counts.kept[0]} --debug")
    elif not counts.keep:
        lines[0] += "; none is kept (--keep 0)"
    return lines
