"""Writes the signals of a guard to its file; if that fails, the guard goes on without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sonde.core.text.problem_line import ProblemLine
from sonde.monitor.ring import SignalRing, ring_path
from sonde.monitor.signals import Signals


class SignalFile:
    """The file of this rank's signals, which is made when the first step is written: only then is
    the rank known for certain. ``say`` gets one line if the file cannot be written."""

    def __init__(
        self, directory: Path, rank: Callable[[], int], say: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._rank = rank
        self._say = say
        self._ring: SignalRing | None = None
        self.is_broken = False

    def know(self, names: Sequence[str]) -> None:
        """Add columns for these parameters."""
        if names:
            self._use(lambda ring: ring.know(names))

    def write(self, signals: Signals) -> None:
        """Write the row of a step, or write it again."""
        self._use(lambda ring: ring.write(signals))

    def close(self) -> None:
        """Unmap the file."""
        if self._ring is not None:
            self._ring.close()

    def _use(self, action: Callable[[SignalRing], object]) -> None:
        if self.is_broken:
            return
        try:
            if self._ring is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                rank = self._rank()
                self._ring = SignalRing(ring_path(self._directory, rank), rank)
            action(self._ring)
        except OSError as error:
            self.is_broken = True
            self._say(
                ProblemLine(
                    f"the signals cannot be written to {self._directory}: "
                    f"{error.strerror or error}; the training is guarded without them",
                    slug="signals-not-written",
                )
            )
