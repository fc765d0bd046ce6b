"""The protocols by which the debugger uses a framework; an adapter implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sonde.core.graph import OpNode
from sonde.core.sink import TensorView
from sonde.watch.conditions import Memory


class Held(Protocol):
    """A parameter or buffer of the model; ``name`` is that of its leaf in the graph.

    ``is_weight``: it is trained. ``gradient_maker`` is the op and slot that computed its gradient,
    or None if that was not observed.
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


@dataclass(frozen=True, slots=True)
class ModuleScope:
    """A module without modules inside it: its scope, and its class."""

    scope: str
    type: str


@dataclass(frozen=True, slots=True)
class ForwardTrace:
    """The ops of the forward pass of the network with scope ``scope``, as far as they are known
    without running them; ``problem`` says why there are none."""

    scope: str = ""
    nodes: tuple[OpNode, ...] = ()
    problem: str = ""


class Snapshot(Protocol):
    """A copy of a tensor that can be renewed in place."""

    @property
    def nbytes(self) -> int: ...
    @property
    def view(self) -> TensorView: ...
    def renew(self, view: TensorView) -> bool:
        """Copy ``view`` over the old values; False if its shape or type has changed."""
        ...


class Trainee(Protocol):
    """The training as the adapter sees it. Used from the training thread, but for ``refresh``."""

    def refresh(self) -> None:
        """The ops that the debugger wants have changed."""
        ...

    def held(self) -> Sequence[Held]:
        """Parameters and buffers of the networks that ran so far."""
        ...

    def modules(self) -> Sequence[ModuleScope]:
        """The innermost modules of the networks that ran so far, or have begun to run."""
        ...

    def trace_forward(self, deliver: Callable[[ForwardTrace], None]) -> Callable[[], None]:
        """Find out, without running them, which ops the network that has begun to run will run.

        Returns at once; ``deliver`` is called later, in another thread, unless the function that
        is returned was called before, which stops the search. Nothing is delivered if no network
        runs."""
        ...

    def is_updated(self, name: str) -> bool:
        """Whether an optimizer has changed this tensor in the running step, as far as known."""
        ...

    def unchanged_yet(self) -> Sequence[Held]:
        """Those of ``held`` that no optimizer has changed yet; the same object as in the last call
        if nothing changed."""
        ...

    def left_alone(self) -> Collection[str]:
        """The names of weights whose optimizers did not step in the last step."""
        ...

    def excused(self, nodes: Sequence[OpNode]) -> Collection[str]:
        """The names of weights that the last step need not have changed: the rate of their
        optimizer is zero or has decayed, their gradient has shrunk to nearly nothing, or their
        module is not among ``nodes``, the ops of the step as far as they were observed."""
        ...

    def nodes_so_far(self) -> tuple[OpNode, ...]:
        """The ops of the running step that ran so far; empty if ops are not observed."""
        ...

    def place(self) -> int | None:
        """The order of the op that ran last in the running step; None if ops are not observed."""
        ...

    def is_observed(self) -> bool:
        """Whether the ops of the running step are observed."""
        ...

    def unobserved(self) -> AbstractContextManager[None]:
        """Ops that run in this block are not observed: they are not part of the training."""
        ...

    def memory(self, view: TensorView) -> Memory | str:
        """The memory of ``view``, or the reason why it cannot be measured."""
        ...

    def non_finite(self, view: TensorView) -> int | None:
        """How many elements are NaN or infinite; None if that cannot be counted."""
        ...

    def snapshot(self, view: TensorView) -> Snapshot: ...

    def end(self) -> None:
        """The training is being ended, with all other ranks."""
        ...
