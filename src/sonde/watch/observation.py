"""The interfaces of observed ops and tensors, on which NaN, Inf and watchpoints are evaluated.

``Observation`` and ``ObservedTensor`` are what origins are traced with; ``core.sink.OpCall`` and
``TensorView`` implement them live. ``MeasuredTensor`` is what conditions are evaluated on. Live
tensors, values that were cached before a pause, and tensors of a dump implement it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.statistics import Statistics
from sonde.watch.conditions import Memory, Needs, PreviousValue


class ObservedTensor(Protocol):
    """One input or output of an observed op.

    ``values_token``: two tensors of one step with the same token (not None) have the same elements.
    ``memory`` is the same object for all tensors that share memory, in all steps; it is referenced
    weakly, and is None if there is no such object. ``is_filled`` is False for memory that was
    allocated and not written yet: its values are arbitrary.
    """

    @property
    def io(self) -> Io: ...
    @property
    def slot(self) -> int: ...
    @property
    def is_filled(self) -> bool: ...
    @property
    def values_token(self) -> object: ...
    @property
    def memory(self) -> object: ...

    def non_finite(self) -> int:
        """The number of elements that are NaN or infinite; 0 if the values cannot be read."""
        ...

    def has_nan(self) -> bool:
        """Whether an element is NaN; for complex values, in either part."""
        ...


class Observation(Protocol):
    """One execution of one op, or a leaf with its values at its first use.

    ``inputs`` have the values from before the op; they are fewer than those of ``node`` if some
    were not observed. ``attributes`` are the arguments that are not tensors, by name, as text.
    """

    @property
    def node(self) -> OpNode: ...
    @property
    def step(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def inputs(self) -> Sequence[ObservedTensor]: ...
    @property
    def outputs(self) -> Sequence[ObservedTensor]: ...
    @property
    def attributes(self) -> tuple[tuple[str, str], ...]: ...


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
