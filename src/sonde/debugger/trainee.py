"""What a debugger needs of the framework it debugs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sonde.conditions import Memory
from sonde.core.graph import OpNode
from sonde.core.sink import TensorView


class Held(Protocol):
    """A parameter or buffer of the model, called as the leaf of the graph that it is.

    ``is_weight``: it is trained. ``gradient_maker`` is the op and slot that made its gradient, as
    far as that has been seen.
    """

    @property
    def name(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def is_weight(self) -> bool: ...
    @property
    def gradient_maker(self) -> tuple[str, int] | None: ...
    def value(self) -> TensorView: ...
    def gradient(self) -> TensorView | None: ...


class Snapshot(Protocol):
    """A copy of a tensor that can be made again, of the same tensor, in the same memory."""

    @property
    def nbytes(self) -> int: ...
    @property
    def view(self) -> TensorView: ...
    def renew(self, view: TensorView) -> bool:
        """Copy ``view`` over the old values; False if it has another shape or type now."""
        ...


class Trainee(Protocol):
    """The training as the adapter sees it. Used from the training thread, but for ``refresh``."""

    def refresh(self) -> None:
        """What is wanted of ops has changed."""
        ...

    def held(self) -> Sequence[Held]:
        """Parameters and buffers of the networks that ran so far."""
        ...

    def unchanged_yet(self) -> Sequence[Held]:
        """Those of ``held`` that no optimizer has ever changed; costs nothing when asked again."""
        ...

    def left_alone(self) -> Collection[str]:
        """The names of weights whose optimizers did not step in the step that is over."""
        ...

    def nodes_so_far(self) -> tuple[OpNode, ...]:
        """The graph of the running step, as far as it ran; empty if ops are not observed."""
        ...

    def place(self) -> int | None:
        """The order of the op that ran last in the running step; None if ops are not observed."""
        ...

    def is_observed(self) -> bool:
        """Whether the ops of the running step are observed."""
        ...

    def own_seconds(self) -> float:
        """How long observing and debugging took so far, with what goes on now; as well as it is
        known."""
        ...

    def unobserved(self) -> AbstractContextManager[None]:
        """What is computed in this block is no part of the training."""
        ...

    def memory(self, view: TensorView) -> Memory | str:
        """Where the values of ``view`` lie, or why they cannot be measured."""
        ...

    def non_finite(self, view: TensorView) -> int | None:
        """How many elements are NaN or infinite; None if nobody can see them."""
        ...

    def snapshot(self, view: TensorView) -> Snapshot: ...

    def end(self) -> None:
        """It is being ended, with all other ranks."""
        ...
