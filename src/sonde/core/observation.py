"""The interface of one execution of an op, live or stored: what NaN and Inf are traced with.

``core.sink.OpCall`` and ``TensorView`` extend it for a running training; the tensors of a dump
implement it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sonde.core.graph import OpNode
from sonde.core.keys import Io


class ObservedTensor(Protocol):
    """One input or output of an observed op.

    Two tensors of one step with the same ``values_token`` (not None) and the same number of
    elements have the same elements, in whatever order and shape. ``memory`` is the same object for
    all tensors that share memory, in all steps, and is freed with that memory: use a weak
    reference. It is None if there is no such object. ``is_filled`` is False for memory that was
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
