"""The interface of tensors on which conditions are evaluated.

Live tensors, values that were cached before a pause, and tensors of a dump implement it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sonde.core.keys import Io
from sonde.core.statistics import Statistics
from sonde.watch.conditions import Memory, Needs, PreviousValue


class MissingStatisticError(Exception):
    """``RecordedStatistics`` do not have the number ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RecordedStatistics(NamedTuple):
    """Statistics that a dump recorded, of the tensor and of its previous value.

    They may lack numbers: to read such a number raises MissingStatisticError. ``is_all``: the dump
    does not have the values, from which the missing numbers could be computed.
    """

    now: Statistics
    previous: Statistics | None
    is_all: bool


class MeasuredTensor(Protocol):
    """A tensor on which conditions are evaluated. Implementations inherit the defaults."""

    @property
    def io(self) -> Io: ...
    @property
    def slot(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

    def buffer(self) -> Memory | str:
        """The memory of the values, or the reason why they cannot be read."""
        ...

    def recorded(self) -> RecordedStatistics | None:
        """Recorded statistics; None if there are none, and values must be read."""
        return None

    def statistics(self) -> Statistics | None:
        """All statistics of the values; None if they are expensive to get, or do not exist."""
        return None

    def non_finite_count(self) -> int | None:
        """The number of NaN and Inf of a tensor without ``buffer``; None if it is not known."""
        return None

    def previous(self, needs: Needs) -> PreviousValue:
        """The value of the previous step, as far as ``needs`` contains it."""
        return PreviousValue()
