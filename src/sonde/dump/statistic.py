"""``statistic.csv``: summary numbers of every wanted tensor of a step.

Each tensor is read once: an input that is an earlier output, unchanged, or a mere rearrangement
of one, has its numbers already. Rows are in execution order. The file appears whole when the step
has ended, and is on disk before the next step ends: a crash loses at most the step that runs and
the one being written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sonde import kernels
from sonde.core.dtypes import dtype_named
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import LaneParts, OpCall, StepEnd, TensorView
from sonde.core.statistics import HASHES, ROW_COLUMNS, raw_column
from sonde.dump import layout
from sonde.dump.steps import StepFiles, raise_failure
from sonde.dump.writer import Writer

_FIRST_CAPACITY = 4096
_OUTLINE = frozenset(
    {
        "max",
        "min",
        "count",
        "nan count",
        "negative inf count",
        "positive inf count",
        "l2norm",
        "finite max",
        "finite min",
    }
)

Gather = Callable[[Sequence[Any]], NDArray[np.float64]]
"""Rows computed on a device, all brought over at once."""


class StatisticDump:
    """Writes ``statistic.csv`` of each step. Used from the training thread.

    ``categories`` as in the configuration, in the order of the columns. With ``gather`` the
    numbers are computed where the tensors live, in the tensor's own precision unless
    ``high_precision``, and fetched once per step.
    """

    def __init__(
        self,
        files: StepFiles,
        writer: Writer,
        *,
        categories: Sequence[str],
        ios: frozenset[Io],
        report: Callable[[str], None],
        gather: Gather | None = None,
        high_precision: bool = True,
    ) -> None:
        self._files = files
        self._writer = writer
        self._categories = tuple(categories)
        self._columns = tuple(raw_column(name) for name in categories)
        self._hashes = tuple(name for name in HASHES if name in categories)
        self._is_outline = _OUTLINE.issuperset(set(categories) - set(HASHES))
        self._inputs = "input" in ios
        self._outputs = "output" in ios
        self._report = report
        self._gather = gather
        self._high_precision = high_precision
        self._skipped: set[str] = set()
        self._parts: dict[tuple[int, Io, int], _Parts] = {}
        self._rows = _RowStore()
        self._known: dict[object, tuple[int, int]] = {}
        self._hashed: dict[tuple[str, object], bytes] = {}
        self._heads: list[bytes] = []
        self._tails: list[bytes] = []
        self._stamps: list[int] = []
        self._index: list[int] = []
        self._digests: dict[str, list[bytes]] = {name: [] for name in self._hashes}
        self._deferred: list[Any] = []
        self._last_job: int | None = None

    def lane_parts(self) -> LaneParts | None:
        """What the shortcut needs, see ``core.sink``; None for hashes and device statistics."""
        if self._hashes or self._gather is not None:
            return None
        outline = self._is_outline
        return LaneParts(
            heads=self._heads,
            tails=self._tails,
            stamps=self._stamps,
            index=self._index,
            whole=kernels.outline_into if outline else kernels.summarize_into,
            strided=kernels.outline_strided_into if outline else kernels.summarize_strided_into,
            describe=lambda node, view: _Parts(node, view).texts,
            other=self._add_other,
            grow=self._rows.grow,
            takes_inputs=self._inputs,
            takes_outputs=self._outputs,
            is_watch=False,
        )

    def take_lane(self, lane: RowCounter) -> None:
        """The shortcut counts the rows from here on."""
        self._rows.counter = lane

    def _add_other(self, node: OpNode, view: TensorView, stamp: int) -> bool:
        self._add(node, stamp, view)
        return False

    def begin_step(self, step: int) -> None:
        self._rows.clear()
        self._known.clear()
        self._hashed.clear()
        columns: tuple[list[Any], ...] = (self._heads, self._tails, self._stamps, self._index)
        for column in (*columns, *self._digests.values()):
            column.clear()
        self._deferred.clear()

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
        row = self._row_of(node, view)
        if row < 0:
            return
        key = (id(node), view.io, view.slot)
        parts = self._parts.get(key)
        if parts is None or parts.shape != view.shape or parts.dtype != view.dtype:
            parts = self._parts[key] = _Parts(node, view)
        self._heads.append(parts.head)
        self._tails.append(parts.tail)
        self._stamps.append(stamp)
        self._index.append(row)
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
        if self._gather is None:
            row, address = self._rows.next()
            if not view.summarize_into(address, outline=self._is_outline):
                self._skip(node, view)
                return -1
            self._rows.keep()
        else:
            deferred = view.summarize_later(
                columns=self._columns, high_precision=self._high_precision
            )
            if deferred is None:
                self._skip(node, view)
                return -1
            row = len(self._deferred)
            self._deferred.append(deferred)
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
        if problem not in self._skipped:
            self._skipped.add(problem)
            self._report(
                f"sonde: {node.name} {view.io} {view.slot} has no statistics: {problem}; "
                "others like it are left out too [no-statistics]"
            )

    def end_step(self, end: StepEnd) -> None:
        if not self._index:
            return
        header = layout.statistic_header(self._categories)
        path = self._files.open(end.step) / layout.STATISTIC
        text = header.encode() + b"\n" + self._text()
        if self._last_job is not None:
            self._writer.wait(self._last_job)
        self._last_job = self._writer.write_text(str(path), text)
        raise_failure(self._writer)

    def _text(self) -> bytes:
        rows = self._rows.array if self._gather is None else self._gather(self._deferred)
        return kernels.format_rows(
            self._heads,
            self._tails,
            np.array(self._stamps, np.int64),
            rows[np.array(self._index)],
            self._columns,
            [self._digests.get(name, ()) for name in HASHES],
        )

    def drop_step(self) -> None:
        """Nothing was written yet."""

    def close(self) -> None:
        """The writer is closed with the directories."""


class RowCounter(Protocol):
    """Who hands out the rows: the store itself, or a shortcut that does it natively."""

    @property
    def count(self) -> int: ...
    def begin(self) -> None: ...
    def next(self) -> tuple[int, int]: ...
    def keep(self) -> None: ...


class _RowStore:
    """Raw rows in one growing block of memory."""

    def __init__(self) -> None:
        self._block: NDArray[np.float64] = np.empty((0, ROW_COLUMNS), np.float64)
        self.counter: RowCounter = _Counter(self.grow)

    def clear(self) -> None:
        self.counter.begin()

    def grow(self) -> tuple[int, int]:
        """Make room for twice as many rows; address and capacity of the block."""
        more = np.empty((max(_FIRST_CAPACITY, len(self._block)), ROW_COLUMNS), np.float64)
        self._block = np.concatenate([self._block, more])
        return self._block.ctypes.data, len(self._block)

    def next(self) -> tuple[int, int]:
        """Number and address of the next row, which ``keep`` makes one of the rows."""
        return self.counter.next()

    def keep(self) -> None:
        self.counter.keep()

    @property
    def array(self) -> NDArray[np.float64]:
        return self._block[: self.counter.count]


class _Counter:
    """See ``RowCounter``."""

    def __init__(self, grow: Callable[[], tuple[int, int]]) -> None:
        self._grow = grow
        self._address = 0
        self._capacity = 0
        self.count = 0

    def begin(self) -> None:
        self.count = 0

    def next(self) -> tuple[int, int]:
        if self.count == self._capacity:
            self._address, self._capacity = self._grow()
        return self.count, self._address + self.count * ROW_COLUMNS * 8

    def keep(self) -> None:
        self.count += 1


class _Parts:
    """The fixed columns of one tensor's row. Keeps the node alive: its id is the key."""

    __slots__ = ("dtype", "head", "node", "shape", "tail")

    def __init__(self, node: OpNode, view: TensorView) -> None:
        self.node = node
        self.shape = view.shape
        self.dtype = view.dtype
        head, tail = layout.statistic_row_parts(
            node.type,
            node.name,
            view.io,
            view.slot,
            view.nbytes,
            dtype_named(view.dtype).label,
            view.shape,
        )
        self.head = head.encode()
        self.tail = f"{tail},".encode()

    @property
    def texts(self) -> tuple[bytes, bytes]:
        return self.head, self.tail
