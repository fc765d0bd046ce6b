"""Writes the signals of a guard to its files; if that fails, the guard goes on without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from sonde.core.files.directories import make_directory
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.lineage import LINEAGE
from sonde.dump.statistic_store import engine
from sonde.monitor.ring import SignalRing, ring_path
from sonde.monitor.signal_history import SignalHistory, history_directory
from sonde.monitor.signals import Signals

_log = logging.getLogger("sonde.capture")


class SignalFile:
    """The files of this rank's signals, which are made when the first step is written: only then is
    the rank known for certain. ``say`` gets one line if they cannot be written. With DuckDB all
    steps are kept as Parquet files, too."""

    def __init__(
        self, directory: Path, rank: Callable[[], int], say: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._rank = rank
        self._say = say
        self._ring: SignalRing | None = None
        self._history: SignalHistory | None = None
        self.is_broken = False

    def know(self, names: Sequence[str]) -> None:
        """Add columns for these parameters."""
        if names:
            self._use(lambda ring: ring.know(names), lambda history: history.know(names))

    def write(self, signals: Signals) -> None:
        """Write the row of a step, or write it again."""
        self._use(lambda ring: ring.write(signals), lambda history: history.write(signals))

    def close(self) -> None:
        """Write everything, and unmap the file."""
        if self._ring is not None:
            self._ring.close()
        if self._history is not None:
            self._history.close()
            LINEAGE.forget(history_directory(self._directory, self._rank()))

    def _use(
        self, action: Callable[[SignalRing], object], keep: Callable[[SignalHistory], object]
    ) -> None:
        if self.is_broken:
            return
        try:
            if self._ring is None:
                make_directory(self._directory)
                rank = self._rank()
                self._ring = SignalRing(ring_path(self._directory, rank), rank)
                if engine.is_installed():
                    self._history = _open_history(history_directory(self._directory, rank))
                if self._history is not None:
                    LINEAGE.keep_in(history_directory(self._directory, rank))
            action(self._ring)
            if self._history is not None:
                keep(self._history)
                self._drop_failed(self._history)
        except OSError as error:
            pass_on(error)
            self.is_broken = True
            self._say(
                ProblemLine(
                    f"the signals cannot be written to {self._directory}: "
                    f"{error.strerror or error}; the training is guarded without them",
                    slug="signals-not-written",
                )
            )

    def _drop_failed(self, history: SignalHistory) -> None:
        """Go on with the ring alone if the Parquet files cannot be written."""
        if history.error is None:
            return
        self._history = None
        self._say(
            ProblemLine(
                f"the history of the signals cannot be written to {self._directory}: "
                f"{str(history.error).splitlines()[0]}; the last steps are kept all the same",
                slug="signals-not-written",
            )
        )


def _open_history(directory: Path) -> SignalHistory | None:
    """The Parquet files; None if the directory cannot be made, which the ring does without."""
    try:
        return SignalHistory(directory)
    except OSError as error:
        pass_on(error)
        _log.warning("no history of signals in %s: %s", directory, error)
        return None
