"""Says what the guard of a process has to say, and switches the guard off when it fails."""

from __future__ import annotations

import logging
import os
import traceback

from sonde.adapters.torch.attach import current_rank
from sonde.adapters.torch.rank_lines import RankLines
from sonde.core.interruption import raise_interruption
from sonde.core.text.problem_line import ProblemLine

_log = logging.getLogger("sonde.capture")


class GuardReport:
    """The lines of one process, with its rank, and whether its guard is still on.

    A forked child is idle: the files and lines are its parent's.
    """

    def __init__(self, rank: int | None, has_other_ranks: bool) -> None:
        self._rank = rank
        self._has_other_ranks = has_other_ranks
        self._lines: RankLines | None = None
        self._pid = os.getpid()
        self.is_off = False

    @property
    def rank(self) -> int:
        """The rank of this process, which a process group may say only when the training runs."""
        if self._rank is None:
            self._rank = current_rank()
        return self._rank

    @property
    def is_forked(self) -> bool:
        return os.getpid() != self._pid

    @property
    def is_idle(self) -> bool:
        return self.is_off or self.is_forked

    def say(self, text: str) -> None:
        if self._lines is None:
            self._lines = RankLines(self.rank, self._has_other_ranks)
        start = "sonde: "
        self._lines(text.with_start(start) if isinstance(text, ProblemLine) else f"{start}{text}")

    def steps_elsewhere(self, thread: str) -> None:
        """An optimizer steps in a thread that is not guarded."""
        if not self.is_off:
            self.is_off = True
            self.say(
                ProblemLine(
                    f"an optimizer steps in thread {thread!r}, which is not guarded: only the "
                    "thread that started the guard is",
                    slug="other-thread",
                )
            )

    def failed(self, error: Exception) -> None:
        """Switch the guard off after an exception of Sonde's own code; others are raised again."""
        raise_interruption(error)
        if self.is_off:
            return
        self.is_off = True
        trace = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(trace[-1].filename)}:{trace[-1].lineno})" if trace else ""
        self.say(
            ProblemLine(
                f"the guard failed and is switched off, training goes on: {type(error).__name__}: "
                f"{error}{place}",
                slug="guard-failed",
            )
        )
        _log.debug("%s", "".join(traceback.format_exception(error)))
