"""What the judgement of a step looks at: one op with its tensors, live or from a dump.

``core.sink.OpCall`` and ``TensorView`` are the live implementation; a dump and the values a paused
training has kept supply their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sonde.core.graph import OpNode
from sonde.core.keys import Io


class ObservedTensor(Protocol):
    """One input or output of an observed op.

    ``values_token``: two tensors of one step with the same token (not None) have the same elements.
    ``memory`` is the same object for all tensors over one piece of memory, in all steps; it is
    referred to weakly, and is None where there is no such object. ``is_filled`` is False for memory
    that was allocated and not written yet: its values mean nothing.
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
        """How many elements are NaN or infinite; 0 where the values cannot be read."""
        ...

    def has_nan(self) -> bool:
        """Whether an element is NaN; of complex values in either part."""
        ...


class Observation(Protocol):
    """One execution of one op, or a leaf as the step found it.

    ``inputs`` hold the values from before the op, and are fewer than those of ``node`` where some
    could not be observed. ``attributes`` are the arguments that are not tensors, by name, as text.
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
