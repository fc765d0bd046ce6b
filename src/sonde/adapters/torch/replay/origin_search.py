"""Sinks for the ops of a replay: where NaN and Inf begin, and what each op computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sonde.adapters.torch.replay.step_record import Event
from sonde.core.graph import OpNode
from sonde.core.sink import NON_FINITE, OpCall, ScreenPath, Sink, StepEnd, TensorView
from sonde.watch.explanations import facts_of_call
from sonde.watch.origins import Origin, OriginTracker

MOST_ROWS = 1000
_DIGEST = "xxh3"
_CASTS = frozenset(("_to_copy", "t", "transpose", "detach", "view"))
"""Ops that weights go through before they meet the batch."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of the batch with non-finite values, of ``size`` rows.

    ``is_direct``: the first dimension of the tensor is the batch; else the rows are those of a
    dimension that begins with the batch (batch times sequence). ``is_confirmed``: these rows alone
    give non-finite values again, and the others alone do not; None if that was not tried.
    """

    rows: tuple[int, ...]
    size: int
    is_direct: bool
    is_confirmed: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundOrigin:
    """The op that non-finite values come from, the event it ran in, and the rows of the batch."""

    origin: Origin
    node: OpNode
    event: Event | None
    rows: BatchRows | None


@dataclass(slots=True, eq=False)
class OriginSearch(Sink):
    """Finds the first op whose non-finite values are a fault, as ``--overflow`` does, and the op
    that raised (``failed``).

    ``event`` returns the event of the step that runs, ``batch_size`` the size of its batch. What
    may be a weight or its gradient (``weight_shapes``) has no rows of the batch.
    """

    event: Callable[[], Event | None]
    batch_size: Callable[[], int | None]
    weight_shapes: frozenset[tuple[int, ...]] = frozenset()
    found: FoundOrigin | None = None
    failed: OpNode | None = None
    _tracker: OriginTracker = field(default_factory=lambda: OriginTracker(facts=facts_of_call))
    _producers: dict[Origin, FoundOrigin] = field(default_factory=dict)

    def begin_step(self, step: int) -> None:
        self._tracker.begin_step()
        self._producers.clear()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        traced = self._tracker.look(call)
        if traced is None:
            return
        known = self._producers.get(traced.origin)
        if known is not None and (known.rows is not None or known.node.kind == "parameter"):
            return
        rows = self._rows(call)
        if known is None:
            self._producers[traced.origin] = FoundOrigin(
                traced.origin, call.node, self.event(), rows
            )
        elif rows is not None:  # The first op that has the values by rows.
            self._producers[traced.origin] = FoundOrigin(
                traced.origin, known.node, known.event, rows
            )

    def op_failed(self, call: OpCall, raised: BaseException) -> None:
        """An op raised: the first one is the cause."""
        self.failed = self.failed or call.node

    def _rows(self, call: OpCall) -> BatchRows | None:
        size = self.batch_size()
        node = call.node
        may_be_weight = node.phase == "backward" or node.type in _CASTS
        if node.kind == "parameter":
            return None
        for view in call.outputs:
            if may_be_weight and tuple(view.shape) in self.weight_shapes:
                continue
            if size and view.is_filled and view.shape and view.non_finite():
                found = rows_of(np.asarray(view.numpy()), size)
                if found is not None:
                    return found
        return None

    def end_step(self, end: StepEnd) -> None:
        unexpected = [each for each in self._producers if each.is_unexpected]
        self._tracker.end_step(end.graph.nodes)
        faults = [each for each in self._producers if each.is_fault]
        chosen = min(faults or unexpected, key=lambda each: each.number, default=None)
        self.found = None if chosen is None else self._producers[chosen]

    def fast_path(self) -> ScreenPath:
        return ScreenPath(lambda node, leaves: NON_FINITE, every_op=NON_FINITE)


def rows_of(values: np.ndarray, size: int) -> BatchRows | None:
    """The rows of a batch of ``size`` rows in which ``values`` are not finite; None if the first
    dimension of ``values`` does not begin with the batch."""
    length = values.shape[0]
    if size < 1 or length % size or not length:
        return None
    bad = ~np.isfinite(values).reshape(length, -1).all(axis=1)
    rows = np.unique(np.flatnonzero(bad) // (length // size))
    return BatchRows(tuple(map(int, rows[:MOST_ROWS])), size, length == size)


@dataclass(slots=True, eq=False)
class Digests(Sink):
    """Keeps a digest of each output of each op, in order: to compare two replays."""

    ops: list[tuple[OpNode, tuple[str, ...]]] = field(default_factory=list)

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        if call.node.kind == "op":
            digests = tuple(
                view.digest(_DIGEST) if view.is_filled and view.problem is None else ""
                for view in call.outputs
            )
            self.ops.append((call.node, digests))

    def end_step(self, end: StepEnd) -> None:
        return


def first_difference(one: Digests, other: Digests) -> OpNode | None:
    """The first op of two replays that computed something else."""
    for (node, digests), (other_node, others) in zip(one.ops, other.ops, strict=False):
        if digests != others or node.name != other_node.name:
            return node
    return None


_EXTREME = 10.0


@dataclass(slots=True, eq=False)
class ExtremeRows(Sink):
    """Finds the first op of the forward pass in which ``rows`` of the batch of ``size`` rows have
    values that are ten times as large as all values of the other rows."""

    rows: frozenset[int]
    size: int
    found: OpNode | None = None

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        if self.found is None and call.node.kind == "op" and call.node.phase == "forward":
            for view in call.outputs:
                is_readable = view.is_filled and view.problem is None and bool(view.shape)
                if is_readable and self._is_extreme(np.asarray(view.numpy())):
                    self.found = call.node

    def _is_extreme(self, values: np.ndarray) -> bool:
        length = values.shape[0]
        if not length or length % self.size or not values.size:
            return False
        largest = np.abs(values.reshape(self.size, -1).astype(np.float64)).max(axis=1)
        chosen = np.isin(np.arange(self.size), list(self.rows))
        others = largest[~chosen].max(initial=0.0)
        return bool(others > 0 and largest[chosen].max(initial=0.0) >= _EXTREME * others)

    def end_step(self, end: StepEnd) -> None:
        return


@dataclass(slots=True, eq=False)
class ReplayedValues(Sink):
    """Keeps the outputs of the op called ``name``."""

    name: str
    values: list[np.ndarray] = field(default_factory=list)

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        if call.node.name == self.name:
            self.values += [
                np.array(view.numpy(), copy=True)
                for view in call.outputs
                if view.is_filled and view.problem is None
            ]

    def end_step(self, end: StepEnd) -> None:
        return


def differing_rows_of(one: ReplayedValues, other: ReplayedValues, size: int) -> tuple[int, ...]:
    """The rows of a batch of ``size`` rows in which two executions of an op differ; empty if its
    outputs do not begin with the batch."""
    for left, right in zip(one.values, other.values, strict=False):
        is_batch = left.shape == right.shape and left.ndim and size and left.shape[0] % size == 0
        if is_batch and left.size:
            differs = (left != right).reshape(size, -1).any(axis=1)
            return tuple(map(int, np.flatnonzero(differs)))
    return ()
