"""Finds why a trial diverged: the op that produced the first NaN or Inf, and its source line.

The trial is stopped. Its command is then run again with the same values and an overflow dump, until
the dump names the op or the time for it is over. A search with ``--watch`` runs every trial with an
overflow dump and needs no second run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import DumpError
from sonde.dump.layout import OVERFLOW
from sonde.dump.reading.side_files import OverflowEntry, read_overflow
from sonde.tune.script_side.current import TRIAL_VARIABLE
from sonde.tune.trials.command import Launch
from sonde.tune.trials.overflow_command import watch
from sonde.tune.trials.trial_process import TrialProcess

DUMP_DIRECTORY = "overflow"
RERUN_DIRECTORY = "diverged"
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class NonFiniteOrigin:
    """The op that produced the first NaN or Inf. ``file`` may be empty."""

    step: int
    op: str
    made: str
    file: str
    line: int
    code: str

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        code = f": {self.code.strip()}" if self.code.strip() else ""
        return f"{self.op} made the first {self.made}, in step {self.step}{place}{code}"


class Explanation:
    """A second run of a diverged trial, with an overflow dump. Poll it from the same thread."""

    def __init__(self, launch: Launch, directory: Path, seconds: float) -> None:
        place = directory / RERUN_DIRECTORY
        place.mkdir(parents=True, exist_ok=True)
        self._dump = place / DUMP_DIRECTORY
        again = watch(launch, self._dump, place / "bin")
        again.environment[TRIAL_VARIABLE] = str(place)
        self._process = TrialProcess(again, place)
        self._seconds = seconds
        self._polled_at = 0.0
        self._log = place

    def poll(self) -> tuple[NonFiniteOrigin | None, str] | None:
        """None while it runs; then the origin, or the reason why none was found."""
        code = self._process.poll()
        is_due = time.monotonic() - self._polled_at > _POLL_SECONDS
        origin = find_origin(self._dump) if code is not None or is_due else None
        if is_due:
            self._polled_at = time.monotonic()
        if origin is not None:
            self.close()
            return origin, ""
        if code is not None:
            return None, f"a second run under the overflow watch showed none (see {self._log})"
        if self._process.seconds > self._seconds:
            self.close()
            return None, f"none was found in {self._seconds:g} s of a second run"
        return None

    def close(self) -> None:
        self._process.kill()


def find_origin(dump: Path) -> NonFiniteOrigin | None:
    """The first producer of NaN or Inf in an overflow dump, which may still be written.

    Infinities that an op was asked to write (``masked_fill(..., -inf)``) count only if they caused
    a NaN.
    """
    for path in sorted(dump.glob(f"rank_*/*/*/*/{OVERFLOW}"), key=_step):
        try:
            entries = read_overflow(path)
        except DumpError:
            continue
        chosen = _first_producer(entries)
        if chosen is not None:
            return _origin(chosen, _step(path))
    return None


def _step(path: Path) -> int:
    name = path.parent.name
    return int(name) if name.isdigit() else -1


def _first_producer(entries: Sequence[OverflowEntry]) -> OverflowEntry | None:
    producers = [one for one in entries if one.role == "producer"]
    for one in producers:
        if one.by_argument is None:
            return one
    for one in entries:
        if any(tensor.get("nan_count") for tensor in one.outputs):
            source = next((each for each in producers if each.op == one.origin), None)
            return source or (producers[0] if producers else None)
    return None


def _origin(entry: OverflowEntry, step: int) -> NonFiniteOrigin:
    has_nan = any(tensor.get("nan_count") for tensor in entry.outputs)
    source = entry.source
    return NonFiniteOrigin(
        step=step,
        op=entry.op,
        made="NaN" if has_nan else "Inf",
        file="" if source is None else source.file,
        line=0 if source is None else source.line,
        code="" if source is None else source.code,
    )
