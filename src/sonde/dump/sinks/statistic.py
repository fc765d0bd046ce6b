"""The statistics of every wanted tensor of a step, in execution order.

Statistics are computed once per tensor: an input that is an unchanged or rearranged earlier output
reuses its row. At the end of a step the rows are handed over to a `StatisticForm`, which writes
them: ``statistic.csv`` (``sinks.statistic_csv``) or Parquet files (``sinks.statistic_parquet``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import OpCall, RowBuffer, RowPath, Sink, StepEnd, TensorView, is_useless
from sonde.core.statistics import HASHES, NOT_IN_OUTLINE, ROW_COLUMNS, raw_column
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.statistic_store.step_rows import StepRows

_FIRST_CAPACITY = 4096

Gather = Callable[[Sequence[Any]], NDArray[np.float64]]
"""Copies rows that a device computed to the host, all at once."""
_LEFT_OUT: Any = object()
"""The label of a tensor that has no row."""


class StatisticForm(Protocol):
    """How the rows of steps are written. Called by the training thread."""

    def label(self, node: OpNode, view: TensorView) -> Any:
        """What a tensor is called in ``StepRows.labels``; it is kept while shape and dtype stay
        the same."""
        ...

    def write_step(self, end: StepEnd, rows: StepRows) -> None:
        """Write the rows of a step that has ended; there is at least one."""
        ...

    def close(self) -> None:
        """Wait until everything is written."""
        ...


class StatisticDump(Sink):
    """Computes the statistics of each step, which ``form`` writes. Used from the training thread.

    ``categories``: as in the configuration, in the order of the columns. With ``gather``,
    statistics are computed on the device of each tensor, in the tensor's own precision unless
    ``high_precision``, and copied to the host once per step. ``keeps_useless``: see
    `core.sink.is_useless`.
    """

    def __init__(
        self,
        form: StatisticForm,
        *,
        categories: Sequence[str],
        ios: frozenset[Io],
        report: Callable[[str], None],
        gather: Gather | None = None,
        high_precision: bool = True,
        keeps_useless: bool = False,
    ) -> None:
        self._form = form
        self._columns = tuple(raw_column(name) for name in categories)
        self._hashes = tuple(name for name in HASHES if name in categories)
        self._is_outline = set(NOT_IN_OUTLINE).isdisjoint(self._columns)
        self._inputs = "input" in ios
        self._outputs = "output" in ios
        self._report = report
        self._gather = gather
        self._high_precision = high_precision
        self._keeps_useless = keeps_useless
        self._has_useless = False
        self._skipped: set[str] = set()
        self._labels: dict[tuple[int, Io, int], _Labelled] = {}
        self._deferred: _DeferredRows | None = None if gather is None else _DeferredRows(gather)
        self._rows: RowBuffer = self._deferred or _PythonRows()
        self._known: dict[object, tuple[int, int]] = {}
        self._hashed: dict[tuple[str, object], bytes] = {}
        self._digests: dict[str, list[bytes]] = {name: [] for name in self._hashes}

    def fast_path(self) -> RowPath | None:
        """Native code collects the rows, unless hashes are wanted or the device computes them."""
        if self._hashes or self._gather is not None:
            return None
        return RowPath(
            takes_inputs=self._inputs,
            takes_outputs=self._outputs,
            outline=self._is_outline,
            label=self._label,
            unusual=lambda node, view, timestamp: self._add(node, timestamp, view),
            use=self._use_rows,
        )

    def _label(self, node: OpNode, view: TensorView) -> Any:
        """The label of a tensor; for one that is left out a label that ``end_step`` drops."""
        if self._is_left_out(node, view):
            self._has_useless = True
            return _LEFT_OUT
        # Python saw the op when it was learned.
        known = self._labels.get((id(node), view.io, view.slot))
        if known is not None and known.shape == view.shape and known.dtype == view.dtype:
            return known.label
        return self._form.label(node, view)

    def _is_left_out(self, node: OpNode, view: TensorView) -> bool:
        return not self._keeps_useless and is_useless(view, node)

    def _use_rows(self, rows: RowBuffer) -> None:
        self._rows = rows

    def begin_step(self, step: int) -> None:
        self._rows.begin_step()
        self._known.clear()
        self._hashed.clear()
        for digests in self._digests.values():
            digests.clear()

    def has(self, view: TensorView) -> bool:
        if not self._inputs:
            return True
        known = self._known.get(view.values_token)
        return (
            known is not None
            and known[1] == view.numel
            and all((name, view.token) in self._hashed for name in self._hashes)
        )

    def write(self, call: OpCall) -> None:
        node = call.node
        stamp = call.timestamp
        if self._inputs:
            for view in call.inputs:
                self._add(node, stamp, view)
        if self._outputs:
            for view in call.outputs:
                self._add(node, stamp, view)

    def _add(self, node: OpNode, stamp: int, view: TensorView) -> None:
        if self._is_left_out(node, view):
            return
        row = self._row_of(node, view)
        if row < 0:
            return
        key = (id(node), view.io, view.slot)
        known = self._labels.get(key)
        if known is None or known.shape != view.shape or known.dtype != view.dtype:
            label = self._form.label(node, view)
            known = self._labels[key] = _Labelled(node, view.shape, view.dtype, label)
        self._rows.add(known.label, stamp, row)
        for name in self._hashes:
            self._digests[name].append(self._hash(name, view))

    def _row_of(self, node: OpNode, view: TensorView) -> int:
        """The number of the row with the view's statistics; -1 if it has none."""
        token = view.values_token
        numel = view.numel
        if token is not None:
            known = self._known.get(token)
            if known is not None and known[1] == numel:
                return known[0]
        if self._deferred is None:
            if not view.summarize_into(self._rows.reserve(), outline=self._is_outline):
                self._skip(node, view)
                return -1
            row = self._rows.keep()
        else:
            deferred = view.summarize_later(
                columns=self._columns, high_precision=self._high_precision
            )
            if deferred is None:
                self._skip(node, view)
                return -1
            row = self._deferred.defer(deferred)
        if token is not None:
            self._known[token] = (row, numel)
        return row

    def _hash(self, name: str, view: TensorView) -> bytes:
        token = view.token
        known = self._hashed.get((name, token)) if token is not None else None
        if known is None:
            known = view.digest(name).encode()
            if token is not None:
                self._hashed[(name, token)] = known
        return known

    def _skip(self, node: OpNode, view: TensorView) -> None:
        problem = view.problem or f"{view.dtype} values are saved as tensors only"
        if view.is_filled and view.nbytes and problem not in self._skipped:
            self._skipped.add(problem)
            text = (
                f"sonde: {node.name} {view.io} {view.slot} has no statistics: {problem}; "
                "others like it are left out too"
            )
            self._report(ProblemLine(text, slug="no-statistics"))

    def end_step(self, end: StepEnd) -> None:
        labels, timestamps, rows = self._rows.take()
        if self._has_useless:
            labels, timestamps, rows = _without_useless(labels, timestamps, rows)
        if labels:
            digests = {name: tuple(found) for name, found in self._digests.items()}
            self._form.write_step(end, StepRows(labels, timestamps, rows, digests))

    def close(self) -> None:
        self._form.close()


def _without_useless(
    labels: list[Any], timestamps: bytes, rows: bytes
) -> tuple[list[Any], bytes, bytes]:
    kept = np.array([label is not _LEFT_OUT for label in labels], bool)
    stamps = np.frombuffer(timestamps, np.int64)[kept]
    values = np.frombuffer(rows, np.float64).reshape(-1, ROW_COLUMNS)[kept]
    left = [label for label in labels if label is not _LEFT_OUT]
    return left, stamps.tobytes(), values.tobytes()


class _PythonRows:
    """The ``core.sink.RowBuffer`` for sinks whose rows are not collected by native code."""

    def __init__(self) -> None:
        self._block: NDArray[np.float64] = np.empty((0, ROW_COLUMNS), np.float64)
        self._count = 0
        self._labels: list[Any] = []
        self._timestamps: list[int] = []
        self._numbers: list[int] = []

    def begin_step(self) -> None:
        self._count = 0
        self._labels = []
        self._timestamps = []
        self._numbers = []

    def reserve(self) -> int:
        if self._count == len(self._block):
            more = np.empty((max(_FIRST_CAPACITY, len(self._block)), ROW_COLUMNS), np.float64)
            self._block = np.concatenate([self._block, more])
        return self._block.ctypes.data + self._count * ROW_COLUMNS * 8

    def keep(self) -> int:
        self._count += 1
        return self._count - 1

    def add(self, label: Any, timestamp: int, row: int, /) -> None:
        self._labels.append(label)
        self._timestamps.append(timestamp)
        self._numbers.append(row)

    def take(self) -> tuple[list[Any], bytes, bytes]:
        labels = self._labels
        timestamps = np.array(self._timestamps, np.int64).tobytes()
        rows = self._all_rows()[np.array(self._numbers, np.int64)].tobytes() if labels else b""
        self.begin_step()
        return labels, timestamps, rows

    def _all_rows(self) -> NDArray[np.float64]:
        return self._block[: self._count]


class _DeferredRows(_PythonRows):
    """Rows that a device computes; they are copied to the host, all at once, by ``take``."""

    def __init__(self, gather: Gather) -> None:
        super().__init__()
        self._gather = gather
        self._deferred: list[Any] = []

    def begin_step(self) -> None:
        super().begin_step()
        self._deferred = []

    def defer(self, deferred: Any) -> int:
        """Add a row; its number."""
        self._deferred.append(deferred)
        return len(self._deferred) - 1

    def _all_rows(self) -> NDArray[np.float64]:
        return self._gather(self._deferred)


@dataclass(frozen=True, slots=True)
class _Labelled:
    """The label of a tensor. Keeps the node alive: its id is the key."""

    node: OpNode
    shape: tuple[int, ...]
    dtype: str
    label: Any
