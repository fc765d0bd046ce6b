"""Where non-finite values come from, and whether they did any harm.

Infinities are often put in on purpose: ``masked_fill(mask, -inf)`` before a softmax, a mask held as
a buffer. They are innocent until a NaN comes of them, or they show in a gradient or an update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sonde.core.graph import Source

OriginKind = Literal["op", "leaf", "outside"]


@dataclass(slots=True, eq=False)
class Origin:
    """Where non-finite values were first seen; ``number`` counts origins in order of time.

    ``kind``: the op ``op`` made them of finite ones; they came in with the leaf ``op``; or
    something that is not an op wrote them into the memory that ``op`` had filled. ``asked`` is the
    argument that told the op to make them (``value=-inf``). ``source`` is the op's line, or the
    line that first used the leaf or the memory. ``is_guilty``: it is known to have done harm.
    """

    number: int
    kind: OriginKind
    step: int
    op: str
    source: Source | None
    asked: str | None = None
    is_guilty: bool = False

    @property
    def place(self) -> str:
        """``Default/log-op0 at train.py:12``."""
        return f"{self.op} at {self.source}" if self.source is not None else self.op


@dataclass(slots=True)
class OverflowSummary:
    """What a run has shown so far.

    ``first`` is the first origin that did harm, ``innocent`` the first that did not yet;
    ``producers`` and ``carriers`` count op calls, dumped or not.
    """

    first: Origin | None = None
    innocent: Origin | None = None
    producers: int = 0
    carriers: int = 0
    _current: Origin | None = field(default=None)
    _previous: Origin | None = field(default=None)

    def begin_step(self) -> None:
        self._previous = self._current
        self._current = None

    def count(self, origin: Origin, *, is_producer: bool) -> None:
        if is_producer:
            self.producers += 1
        else:
            self.carriers += 1
        if not origin.is_guilty:
            self.innocent = self.innocent or origin
            return
        self.first = self.first or origin
        self._current = self._current or origin

    @property
    def latest(self) -> Origin | None:
        """Whose values the running step shows, or the one before, or else any."""
        return self._current or self._previous or self.first
