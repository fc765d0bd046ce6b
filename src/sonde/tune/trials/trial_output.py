"""Reads the output of a running trial: its reports, its log, its summaries.

Each source is read from where the last read ended. Reading does not disturb the script.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sonde.tune.config.search_config import SearchTarget
from sonde.tune.script_side.current import REPORTS_FILE

From = Literal["report", "summary", "log"]
Scalars = Mapping[str, tuple[int, float]]
ScalarReader = Callable[[Path], Scalars]
"""The newest step and value of every tag of a summary directory; empty without such a directory."""

OUTPUT_FILE = "output.log"
SUMMARY_SECONDS = 1.0
NUMBER = (
    r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
    r"|inf(?:inity)?|nan)(?![\w])"
)
_LOSS_IS_NAN = re.compile(
    r"(?i)(?<![\w])loss(?:\s+is)?\s*[:=]?\s*(?:nan(?![\w])|tensor\(nan)|loss is nan or inf"
)
_NOT_CURRENT = re.compile(r"(?i)(?:best|min|minimum|lowest|initial)[\s_]*$")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """A number from a trial. ``is_target``: it is the number that the search improves.

    ``step`` is None when the source does not count. A value may be NaN or infinite.
    """

    name: str
    value: float
    step: int | None
    origin: From
    is_target: bool


class Tail:
    """New lines of a growing file; a carriage return also ends a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self, *, to_end: bool = False) -> list[str]:
        """Complete lines since the last call; ``to_end`` adds an incomplete last line."""
        found: list[str] = []
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(_CHUNK):
                    self._offset += len(data)
                    *whole, self._rest = re.split(rb"[\r\n]", self._rest + data)
                    found += [line.decode("utf-8", "replace") for line in whole if line]
        except FileNotFoundError:
            return []
        if to_end and self._rest:
            found.append(self._rest.decode("utf-8", "replace"))
            self._rest = b""
        return found


class Reports:
    """``reports.jsonl``: reports of `sonde.tune.report`, and requests of `suggest`."""

    def __init__(self, directory: Path, target: SearchTarget) -> None:
        self._tail = Tail(directory / REPORTS_FILE)
        self._target = target
        self._count = 0
        self.questions: list[dict[str, Any]] = []

    def look(self, *, to_end: bool) -> list[ReportedValue]:
        found = []
        for line in self._tail.lines(to_end=to_end):
            try:
                content = json.loads(line)
            except ValueError:
                continue  # the script was killed during a write
            if "ask" in content:
                self.questions.append(content["ask"])
                continue
            step = content.get("step")
            metrics = content.get("metrics", {})
            target = self._target.name
            self._count += not {"", target}.isdisjoint(metrics)
            number = self._count if step is None else int(step)
            found += [
                ReportedValue(name or target, float(value), number, "report", name in ("", target))
                for name, value in metrics.items()
            ]
        return found


class Log:
    """The output of the script, searched for the target and for a loss that is NaN."""

    def __init__(self, directory: Path, target: SearchTarget) -> None:
        self._tail = Tail(directory / OUTPUT_FILE)
        self._name = target.name
        self._is_default = target.pattern is None
        self._pattern = target.pattern or default_pattern(target.name)
        self._count = 0
        self.last_lines: list[str] = []

    def look(self, *, to_end: bool) -> list[ReportedValue]:
        found: list[ReportedValue] = []
        for line in self._tail.lines(to_end=to_end):
            self.last_lines = [*self.last_lines[-19:], line]
            found += self._in_line(line)
        return found

    def _in_line(self, line: str) -> list[ReportedValue]:
        found = []
        for match in self._pattern.finditer(line):
            if self._is_default and _NOT_CURRENT.search(line[: match.start()]):
                continue
            groups = match.groupdict()
            value = _parsed(groups.get("value") or next(iter(match.groups()), None))
            if value is not None:
                self._count += 1
                step = _parsed(groups.get("step"))
                number = self._count if step is None else int(step)
                found.append(ReportedValue(self._name, value, number, "log", True))
        is_noticed = any(not math.isfinite(one.value) for one in found)
        if not is_noticed and _LOSS_IS_NAN.search(line):
            found.append(ReportedValue("loss", math.nan, None, "log", False))
        return found


class Summaries:
    """The newest numbers of the trial's summary directory, read at most once a second."""

    def __init__(self, directory: Path, target: SearchTarget, read: ScalarReader | None) -> None:
        self._directory = directory
        self._target = target
        self._read = read
        self._read_at = -math.inf
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self, *, to_end: bool) -> list[ReportedValue]:
        now = time.monotonic()
        if self._read is None or (not to_end and now - self._read_at < SUMMARY_SECONDS):
            return []
        self._read_at = now
        scalars = self._read(self._directory)
        tag = target_tag(self._target, scalars)
        found = []
        for name, (step, value) in scalars.items():
            if self._seen.get(name) == (step, value) or name not in (tag, "loss"):
                continue
            self._seen[name] = (step, value)
            found.append(ReportedValue(name, value, step, "summary", name == tag))
        return found


def target_tag(target: SearchTarget, tags: Mapping[str, object]) -> str | None:
    """The tag of a summary that has the target: its name, or ``eval/`` and its name."""
    wanted = (target.name, f"eval/{target.name}")
    if target.group == "metric":
        wanted = (f"eval/{target.name}", target.name)
    for name in wanted:
        if name in tags:
            return name
    lowered = {name.lower(): name for name in tags}
    return next((lowered[name.lower()] for name in wanted if name.lower() in lowered), None)


def default_pattern(name: str) -> re.Pattern[str]:
    """``loss: 0.3``, ``loss=0.3``, ``loss is 0.3``, ``loss 0.3``, for a target without pattern."""
    return re.compile(rf"(?i)(?<![\w./-]){re.escape(name)}(?:\s+is)?\s*[:=]?\s*({NUMBER})")


def _parsed(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


PREFERENCE: tuple[From, ...] = ("report", "summary", "log")
"""Which source is used when several have the target and the configuration names none."""


@dataclass(slots=True)
class Series:
    """The values observed so far.

    ``non_finite`` is the first observation of the target or the loss that was NaN or infinite.
    """

    target: SearchTarget
    values: dict[From, list[tuple[int, float]]] = field(default_factory=dict)
    non_finite: ReportedValue | None = None
    _stored: set[int] = field(default_factory=set)

    def note(self, observations: Iterable[ReportedValue]) -> list[tuple[int, float]]:
        """Add observations; returns the new finite values for the study, each kept step once."""
        before = {origin: len(values) for origin, values in self.values.items()}
        for one in observations:
            if one.is_target and self._is_used(one.origin):
                known = self.values.setdefault(one.origin, [])
                known.append((len(known) + 1 if one.step is None else one.step, one.value))
            if not math.isfinite(one.value) and self.non_finite is None:
                is_relevant = one.name == "loss" or (one.is_target and self._is_used(one.origin))
                self.non_finite = one if is_relevant else None
        origin = self.origin
        if origin is None:
            return []
        new = []
        for step, value in self.values[origin][before.get(origin, 0) :]:
            if math.isfinite(value) and is_kept(step) and step not in self._stored:
                self._stored.add(step)
                new.append((step, value))
        return new

    def _is_used(self, origin: From) -> bool:
        return self.target.origin in ("auto", origin)

    @property
    def origin(self) -> From | None:
        """The source that is used, of those that have values."""
        return next((one for one in PREFERENCE if self.values.get(one)), None)

    @property
    def latest(self) -> tuple[int, float] | None:
        origin = self.origin
        return None if origin is None else self.values[origin][-1]

    def result(self) -> float | None:
        """The trial's value, its last or its best; may be NaN; None if it has none."""
        origin = self.origin
        if origin is None:
            return None
        values = [value for _, value in self.values[origin]]
        if self.target.keep == "last":
            return values[-1]
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return values[-1]
        return min(finite) if self.target.goal == "minimize" else max(finite)


def is_kept(step: int) -> bool:
    """Whether a step's value is stored: every step to 100, then about 90 for each factor of ten.

    Pruners compare trials at equal steps, so the choice depends only on the step. Optuna does not
    accept negative steps.
    """
    if step < 0:
        return False
    return step <= 100 or step % 10 ** (len(str(step - 1)) - 2) == 0
