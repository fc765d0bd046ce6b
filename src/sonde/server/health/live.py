"""The statistics of a live rank over its steps, for its health page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.core.statistics import (
    COUNT,
    L2NORM,
    NAN_COUNT,
    NEGATIVE_INF_COUNT,
    POSITIVE_INF_COUNT,
    ZERO_COUNT,
)
from sonde.server.health.stored import loss_series
from sonde.server.live.history import OutputRows, StepNorms
from sonde.trends.database import CellTensor, LayerMatrix, StepSeries
from sonde.trends.layer_grid import ABSENT, LayerGrid
from sonde.trends.views import LAYER_STATISTICS
from sonde.watch.op_types import VIEWS
from sonde.wire.shapes import LossPoint, Node

_MOST_CELLS: Final = 8_000_000
_MISSING: Final = "no step has ended yet whose weights or ops were observed"
Row = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LiveTrends:
    """What a rank has sent until now; a snapshot, used from any thread.

    ``parameters``: the weights by column of ``norms``; ``rows``: the outputs of the steps whose ops
    were observed; ``nodes``: those of the graph that ran last.
    """

    rank: int
    points: Sequence[LossPoint]
    parameters: Sequence[str]
    norms: Sequence[StepNorms]
    rows: Sequence[OutputRows]
    nodes: Sequence[Node]

    @property
    def missing(self) -> str:
        return "" if self.statistics() else _MISSING

    def signals(self) -> Mapping[str, StepSeries]:
        found = {"loss": loss_series(self.points)}
        steps = [point.step for point in self.points]
        found["step_seconds"] = _series(steps, [point.seconds for point in self.points])
        if self.norms:
            steps = [each.step for each in self.norms]
            rates = [np.nan if (r := each.learning_rate) is None else r for each in self.norms]
            weights = np.sqrt([_square_sum(each.weights) for each in self.norms])
            updates = [_square_sum(each.updates * each.weights) for each in self.norms]
            gradients = [_square_sum(each.gradients) for each in self.norms]
            found["grad_norm"] = _series(steps, np.sqrt(gradients))
            with np.errstate(divide="ignore", invalid="ignore"):
                found["update_ratio"] = _series(steps, np.sqrt(updates) / weights)
            if not np.isnan(rates).all():
                found["learning_rate"] = _series(steps, rates)
        return {name: each for name, each in found.items() if each.steps.size}

    def optimizers(self) -> Mapping[int, str]:
        return {point.step: point.optimizer for point in self.points if point.optimizer}

    def statistics(self) -> Sequence[str]:
        known = {*(_NORMS if self.norms else ()), *(_OUTPUTS if self._activations else ())}
        return [name for name in LAYER_STATISTICS if name in known]

    def grid(self, statistic: str) -> LayerGrid:
        if statistic not in self.statistics():
            raise UsageError(
                f"the run has no {statistic} of layers in rank {self.rank}", slug="no-statistic"
            )
        cells = self._cells(statistic)
        layers = self._layers(statistic)
        return LayerGrid.of(_matrix(layers, cells, min(cells), max(cells), _MOST_CELLS))

    def fine_grid(self, statistic: str, first: int, last: int, columns: int) -> LayerGrid:
        layers = self._layers(statistic)
        most = max(columns * len(layers), 1)
        return LayerGrid.of(_matrix(layers, self._cells(statistic), first, last, most))

    def _cells(self, statistic: str) -> dict[int, NDArray[np.float64]]:
        """The values of the layers by step."""
        return self._norm_cells(statistic) if statistic in _NORMS else self._row_cells(statistic)

    def tensors(self, statistic: str, layer: str, first: int, last: int) -> Sequence[CellTensor]:
        if statistic in _NORMS:
            found = self._norm_tensors(statistic, layer, first, last)
        else:
            found = self._row_tensors(statistic, layer, first, last)
        greatest: dict[tuple[str, int], CellTensor] = {}
        for each in found:
            key = (each.op, each.slot)
            if key not in greatest or _order(each) > _order(greatest[key]):
                greatest[key] = each
        return sorted(greatest.values(), key=_order, reverse=True)[:_MOST_TENSORS]

    def has_tensor(self, tensor: CellTensor) -> bool:
        return True

    # ------------------------------------------------------------------ weights

    @cached_property
    def _columns(self) -> Mapping[str, NDArray[np.intp]]:
        """The columns of each layer's parameters, in the order of the first ones."""
        found: dict[str, list[int]] = {}
        for column, name in enumerate(self.parameters):
            found.setdefault(layer_of(name), []).append(column)
        return {layer: np.array(columns, np.intp) for layer, columns in found.items()}

    def _layers(self, statistic: str) -> Sequence[str]:
        return list(self._columns if statistic in _NORMS else self._activations)

    def _norm_cells(self, statistic: str) -> dict[int, NDArray[np.float64]]:
        """A layer whose weights were not measured in a step is absent: those of another optimizer.
        If nothing was, the weights are NaN, and so are their norms."""
        found: dict[int, NDArray[np.float64]] = {}
        for each in self.norms:
            is_nan = bool(np.isnan(each.weights).all())
            found[each.step] = np.array(
                [
                    _NORMS[statistic](each, columns)
                    if is_nan or not np.isnan(_at(each.weights, columns)).all()
                    else ABSENT
                    for columns in self._columns.values()
                ]
            )
        return found

    def _norm_tensors(self, statistic: str, layer: str, first: int, last: int) -> list[CellTensor]:
        suffix = ".grad" if statistic == "grad_norm" else ""
        return [
            CellTensor(self.parameters[c] + suffix, "Parameter", "", "output", 0, each.step, value)
            for each in self.norms
            if first <= each.step <= last
            for c in self._columns.get(layer, ())
            if not np.isnan(value := _NORMS[statistic](each, np.array([c])))
        ]

    # ------------------------------------------------------------------ outputs

    @cached_property
    def _activations(self) -> Mapping[str, str]:
        """The last forward op of each layer that computes something, if ops were observed."""
        if not self.rows:
            return {}
        return {
            node.scope: node.name
            for node in self.nodes
            if node.kind == "op" and node.phase == "forward" and node.scope
            if node.type not in VIEWS
        }

    def _row_cells(self, statistic: str) -> dict[int, NDArray[np.float64]]:
        found: dict[int, NDArray[np.float64]] = {}
        places = {layer: place for place, layer in enumerate(self._activations)}
        scopes = {node.name: node.scope for node in self.nodes}
        for rows in self.rows:
            cells = found.setdefault(rows.step, np.full(len(places), float(ABSENT)))
            for (op, slot), at in rows.places.items():
                place = places.get(scopes.get(op, ""))
                value = self._of_row(statistic, op, slot, rows.table[at])
                if place is not None and value is not None:
                    is_sum = statistic == "non_finite_count" and cells[place] != ABSENT
                    cells[place] = value + (cells[place] if is_sum else 0.0)
        return found

    def _row_tensors(self, statistic: str, layer: str, first: int, last: int) -> list[CellTensor]:
        nodes = {node.name: node for node in self.nodes if node.scope == layer}
        return [
            CellTensor(op, nodes[op].type, nodes[op].phase, "output", slot, rows.step, value)
            for rows in self.rows
            if first <= rows.step <= last
            for (op, slot), at in rows.places.items()
            if op in nodes
            if (value := self._of_row(statistic, op, slot, rows.table[at])) is not None
        ]

    def _of_row(self, statistic: str, op: str, slot: int, row: Row) -> float | None:
        """The statistic of an output; None if it is not one that the statistic is about."""
        if statistic == "non_finite_count":
            return float(row[NAN_COUNT] + row[POSITIVE_INF_COUNT] + row[NEGATIVE_INF_COUNT])
        if slot != 0 or op not in self._last_ops or not row[COUNT]:
            return None
        return _OUTPUTS[statistic](row)

    @cached_property
    def _last_ops(self) -> frozenset[str]:
        return frozenset(self._activations.values())


def layer_of(parameter: str) -> str:
    """The module of a parameter."""
    return parameter.rpartition(".")[0] or parameter


def _matrix(
    layers: Sequence[str],
    by_step: Mapping[int, NDArray[np.float64]],
    first: int,
    last: int,
    most_cells: int,
) -> LayerMatrix:
    """The matrix of the steps from ``first`` to ``last``; steps that are not there are absent. A
    column has one step, or as many as it takes to have at most so many cells: steps may be far
    apart, as after a training was resumed."""
    columns = max(most_cells // max(len(layers), 1), 1)
    width = (last - first) // columns + 1
    values = np.full((len(layers), (last - first) // width + 1), ABSENT, np.float64)
    for step, cells in by_step.items():
        if first <= step <= last:
            column = (step - first) // width
            values[:, column] = np.maximum(values[:, column], cells)
    steps = first + width * np.arange(values.shape[1])
    return LayerMatrix(tuple(layers), steps, values, values != ABSENT)


def _order(tensor: CellTensor) -> float:
    """NaN is greater than Inf."""
    value = np.nan if tensor.value is None else tensor.value
    return np.inf if np.isnan(value) else min(value, 1e308)


def _series(steps: Sequence[int], values: Sequence[float] | NDArray[np.float64]) -> StepSeries:
    found = np.array(values, np.float64)
    return StepSeries(np.array(steps, np.int64), found, found, found)


def _square_sum(values: NDArray[np.float32]) -> float:
    """The sum of squares of those that are known."""
    known = values[~np.isnan(values)].astype(np.float64)
    return float(np.dot(known, known)) if known.size else np.nan


def _at(values: NDArray[np.float32], columns: NDArray[np.intp]) -> NDArray[np.float32]:
    return values[columns[columns < values.size]]


def _greatest_gradient(norms: StepNorms, columns: NDArray[np.intp]) -> float:
    known = _at(norms.gradients, columns)
    return float(np.fmax.reduce(known)) if known.size else np.nan


def _weight_norm(norms: StepNorms, columns: NDArray[np.intp]) -> float:
    return float(np.sqrt(_square_sum(_at(norms.weights, columns))))


def _update_ratio(norms: StepNorms, columns: NDArray[np.intp]) -> float:
    weights, ratios = _at(norms.weights, columns), _at(norms.updates, columns)
    size = min(weights.size, ratios.size)
    total = _square_sum(weights[:size])
    return float(np.sqrt(_square_sum(ratios[:size] * weights[:size]) / total)) if total else np.nan


_NORMS: Final[Mapping[str, Callable[[StepNorms, NDArray[np.intp]], float]]] = {
    "grad_norm": _greatest_gradient,
    "weight_norm": _weight_norm,
    "update_ratio": _update_ratio,
}
_OUTPUTS: Final[Mapping[str, Callable[[Row], float]]] = {
    "activation_rms": lambda row: float(row[L2NORM] / np.sqrt(row[COUNT])),
    "zero_fraction": lambda row: float(row[ZERO_COUNT] / row[COUNT]),
    "non_finite_count": lambda row: float(row[NAN_COUNT]),
}
_MOST_TENSORS: Final = 50
