"""The statistics of tensors over the steps of one rank, as the rank sent them."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from sonde.core.statistics import DTYPE, ROW_COLUMNS, Statistics
from sonde.kernels import statistics_from_row
from sonde.kernels.codes import DTYPES
from sonde.wire.api import StatisticPoint
from sonde.wire.convert import known_numbers, statistic_numbers
from sonde.wire.framing import FrameError
from sonde.wire.numbers import to_wire
from sonde.wire.rank import OpStatistics, ParameterNames, ParameterNorms
from sonde.wire.shapes import StatisticNumbers

Slot = tuple[str, int]
"""An output: its op, and its place among the outputs."""
MOST_ROW_BYTES: Final = 96 << 20
MOST_NORM_BYTES: Final = 64 << 20
MOST_STEPS: Final = 2000
_GRADIENT: Final = ".grad"
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class OutputRows:
    """Outputs of one step; ``places`` finds the row of an output. ``nbytes``: of the numbers, or of
    the names if those are more, which only happens on purpose."""

    step: int
    names: tuple[tuple[str, ...], tuple[int, ...]]
    places: Mapping[Slot, int]
    table: npt.NDArray[np.float64]
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class StepNorms:
    """Gradients, weights and updates of one step, by column."""

    step: int
    gradients: Floats
    weights: Floats
    updates: Floats
    learning_rate: float | None

    @property
    def nbytes(self) -> int:
        return self.gradients.nbytes + self.weights.nbytes + self.updates.nbytes

    @property
    def first_column(self) -> int:
        """The first weight that was measured: it distinguishes optimizers that take turns."""
        return int(np.argmax(~np.isnan(self.weights))) if self.weights.size else -1


@dataclass(frozen=True, slots=True, eq=False)
class RecordedStep:
    """The outputs of one step, and those of the recorded step before it."""

    step: int
    _now: tuple[OutputRows, ...]
    _before: tuple[OutputRows, ...]

    def statistics(self, op: str, slot: int) -> tuple[Statistics | None, Statistics | None]:
        """The statistics of an output in the step, and in the one before."""
        return _found(self._now, op, slot), _found(self._before, op, slot)


class StatisticHistory:
    """Of ops the last steps that were recorded, as many as fit into ``MOST_ROW_BYTES``. Of weights
    and gradients all steps or, when there are too many, every second one, and so on. Used in the
    event loop's thread only."""

    def __init__(self) -> None:
        self._rows: deque[OutputRows] = deque()
        self._row_bytes = 0
        self._columns: dict[str, int] = {}
        self._norms: list[StepNorms] = []

    # --------------------------------------------------------------- messages

    def set_names(self, message: ParameterNames) -> None:
        self._columns = {name: column for column, name in enumerate(message.names)}

    def add_norms(self, message: ParameterNorms) -> None:
        """Add a step; FrameError if its numbers cannot be read."""
        try:
            gradients, weights, updates = (
                np.frombuffer(data, "<f4").astype(np.float32)
                for data in (message.gradients, message.weights, message.updates)
            )
        except ValueError as error:
            raise FrameError(f"norms of weights cannot be read: {error}") from None
        self._norms.append(
            StepNorms(message.step, gradients, weights, updates, message.learning_rate)
        )
        each = max(self._norms[-1].nbytes, 1)
        if len(self._norms) > max(min(MOST_STEPS, MOST_NORM_BYTES // each), 10):
            self._norms = _thinned(self._norms)

    def add_rows(self, message: OpStatistics) -> None:
        """Add outputs of a step; FrameError if their numbers cannot be read."""
        count = len(message.ops)
        if len(message.slots) != count or len(message.rows) != count * ROW_COLUMNS * 8:
            raise FrameError(f"statistics of {count} tensors have {len(message.rows)} bytes")
        table = np.frombuffer(message.rows, "<f8").reshape(count, ROW_COLUMNS)
        names = (message.ops, message.slots)
        last = next((each for each in self._rows if each.names == names), None)
        if last is None:
            places = {slot: place for place, slot in enumerate(zip(*names, strict=True))}
            nbytes = max(table.nbytes, sum(map(sys.getsizeof, message.ops)))
            added = OutputRows(message.step, names, places, table, nbytes)
        else:  # Steps of one graph share their names, which take more memory than the numbers.
            added = replace(last, step=message.step, table=table)
        self._rows.append(added)
        self._row_bytes += added.nbytes
        while self._row_bytes > MOST_ROW_BYTES or len(self._rows) > MOST_STEPS:
            self._row_bytes -= self._rows.popleft().nbytes

    # ---------------------------------------------------------------- answers

    def points(self, op: str, slot: int, count: int) -> list[StatisticPoint]:
        """The statistics of an output over the steps: of a weight or gradient its norm, and those
        that were recorded of it as a leaf of the graph. ``count``: of its elements."""
        found = {each.step: each for each in self._norm_points(op, count)} if slot == 0 else {}
        for rows in self._rows:
            numbers = _numbers(rows, op, slot)
            if numbers is not None:
                ratio = found[rows.step].update_ratio if rows.step in found else None
                found[rows.step] = StatisticPoint(rows.step, numbers, ratio)
        return [found[step] for step in sorted(found)]

    def snapshot(
        self,
    ) -> tuple[tuple[str, ...], tuple[StepNorms, ...], tuple[OutputRows, ...]]:
        """The names of the weights by column, their norms, and the outputs of ops, for another
        thread."""
        return tuple(self._columns), tuple(self._norms), tuple(self._rows)

    def last_step(self) -> RecordedStep | None:
        """The last recorded step with most of its outputs, for evaluations in another thread."""
        if not self._rows:
            return None
        most = max(len(each.places) for each in self._rows)
        whole = [each for each in self._rows if 2 * len(each.places) > most]
        steps = sorted({each.step for each in whole})
        parts = [
            tuple(each for each in self._rows if each.step == step) for step in reversed(steps[-2:])
        ]
        return RecordedStep(steps[-1], parts[0], parts[1] if len(parts) > 1 else ())

    def of_ops(self, step: int | None) -> tuple[OutputRows, ...]:
        """The recorded outputs of ``step``, None: of all steps; the last first."""
        return tuple(each for each in reversed(self._rows) if step in (None, each.step))

    def latest(self, op: str, slot: int, step: int | None) -> tuple[int, StatisticNumbers] | None:
        """The statistics of an output in ``step``, None: in the last step that has any."""
        for rows in reversed(self._rows):
            if step in (None, rows.step):
                numbers = _numbers(rows, op, slot)
                if numbers is not None:
                    return rows.step, numbers
        return None

    def is_measured(self, op: str) -> bool:
        """Whether ``op`` is a weight, or the gradient of one, that is measured in every step."""
        return op in self._columns or op.removesuffix(_GRADIENT) in self._columns

    def _norm_points(self, op: str, count: int) -> Iterable[StatisticPoint]:
        name, is_gradient = op, False
        if name not in self._columns and name.endswith(_GRADIENT):
            name, is_gradient = name.removesuffix(_GRADIENT), True
        column = self._columns.get(name)
        if column is None:
            return
        for each in self._norms:
            norm = _at(each.gradients if is_gradient else each.weights, column)
            ratio = math.nan if is_gradient else _at(each.updates, column)
            if not math.isnan(norm):
                known = known_numbers({"count": count, "l2norm": norm})
                point = StatisticPoint(each.step, known)
                if not math.isnan(ratio):
                    point = StatisticPoint(each.step, known, to_wire(ratio))
                yield point


def _at(values: Floats, column: int) -> float:
    return float(values[column]) if column < values.size else math.nan


def latest_outputs(
    parts: Iterable[OutputRows], ops: Iterable[str]
) -> tuple[int | None, dict[str, list[StatisticNumbers]]]:
    """The outputs of each of ``ops`` in the first of ``parts`` that has it, and the last step among
    them."""
    missing, last = set(ops), None
    found: dict[str, list[StatisticNumbers]] = {}
    for rows in parts:
        here = [(op, slot) for op, slot in rows.places if op in missing]
        for op, slot in here:
            numbers = _numbers(rows, op, slot)
            if numbers is not None:
                found.setdefault(op, []).append(numbers)
                last = rows.step if last is None else max(last, rows.step)
        missing.difference_update(op for op, _ in here if op in found)
        if not missing:
            break
    return last, found


def _found(parts: Iterable[OutputRows], op: str, slot: int) -> Statistics | None:
    return next((found for rows in parts if (found := _statistics(rows, op, slot))), None)


def _numbers(rows: OutputRows, op: str, slot: int) -> StatisticNumbers | None:
    found = _statistics(rows, op, slot)
    return None if found is None else statistic_numbers(found)


def _statistics(rows: OutputRows, op: str, slot: int) -> Statistics | None:
    place = rows.places.get((op, slot))
    if place is None:
        return None
    row = rows.table[place]
    code = row[DTYPE]
    if not (code >= 0 and code < len(DTYPES)) or np.isnan(row[:DTYPE]).all():
        return None
    try:
        return statistics_from_row(row, DTYPES[int(code)])
    except (ValueError, OverflowError):
        return None


def _thinned(norms: Sequence[StepNorms]) -> list[StepNorms]:
    """Every second step of each optimizer: of all steps, one of two optimizers that take turns
    would disappear."""
    is_kept: dict[int, bool] = {}
    kept: list[StepNorms] = []
    for each in norms:
        now = is_kept[each.first_column] = not is_kept.get(each.first_column, False)
        if now:
            kept.append(each)
    return kept
