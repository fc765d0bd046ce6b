"""What the health page asks a run, live or on disk; and its answers as wire types."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.report.thinning import thinned
from sonde.trends.database import CellTensor, StepSeries
from sonde.trends.layer_grid import Cells, LayerGrid
from sonde.trends.views import LAYER_STATISTICS
from sonde.wire.health import (
    HealthView,
    LayerCells,
    LayerStatisticView,
    LayerTensor,
    LayerTensors,
    SignalCurve,
)
from sonde.wire.numbers import Number, to_wire
from sonde.wire.queries import CellQuery, HealthQuery, LayersQuery

SHOWN_SIGNALS: Final = ("loss", "learning_rate", "grad_norm", "update_ratio", "step_seconds")
"""The signals of the page, in its order."""
_MOST_SIDE: Final = 4096
_MOST_POINTS: Final = 20_000


class TrendSource(Protocol):
    """The statistics of one rank over its steps. Methods may be called from any thread."""

    @property
    def rank(self) -> int: ...

    @property
    def missing(self) -> str:
        """Why there are no statistics of layers, and what to do; empty if there are some."""
        ...

    def signals(self) -> Mapping[str, StepSeries]:
        """Signals by name; those that are not recorded are left out."""
        ...

    def optimizers(self) -> Mapping[int, str]:
        """The optimizer of each step, as far as it is known."""
        ...

    def statistics(self) -> Sequence[str]:
        """The names of the statistics of layers that are recorded."""
        ...

    def grid(self, statistic: str) -> LayerGrid:
        """UsageError if the statistic is not recorded."""
        ...

    def fine_grid(self, statistic: str, first: int, last: int, columns: int) -> LayerGrid:
        """The grid of some steps, for a picture of so many columns."""
        ...

    def tensors(self, statistic: str, layer: str, first: int, last: int) -> Sequence[CellTensor]:
        """What a cell is computed from, the greatest value first."""
        ...

    def has_tensor(self, tensor: CellTensor) -> bool:
        """Whether the tensor view can show it."""
        ...


def health_view(source: TrendSource, query: HealthQuery) -> HealthView:
    """The signals between two steps, and the statistics that there are."""
    points = bounded(query.points, _MOST_POINTS, "points")
    series = source.signals()
    optimizers = source.optimizers()
    curves = [
        signal_curve(name, each, query.first, query.last, points, optimizer)
        for name in SHOWN_SIGNALS
        if name in series
        for optimizer, each in _by_optimizer(series[name], optimizers).items()
    ]
    names = source.statistics()
    ends = [each.steps[[0, -1]] for each in series.values() if each.steps.size]
    if names:
        grid = source.grid(names[0])
        ends.append(np.array([grid.first, grid.last]))
    return HealthView(
        source.rank,
        int(min(each[0] for each in ends)) if ends else None,
        int(max(each[1] for each in ends)) if ends else None,
        tuple(each for each in curves if each.steps),
        tuple(LayerStatisticView(name, LAYER_STATISTICS[name].description) for name in names),
        source.missing,
    )


def layer_cells(source: TrendSource, query: LayersQuery, other: TrendSource | None) -> LayerCells:
    """A part of the map, of this run and of another one."""
    rows = bounded(query.rows, _MOST_SIDE, "rows")
    columns = bounded(query.columns, _MOST_SIDE, "columns")
    whole = source.grid(query.statistic)
    first, last = _inside(whole, query.first, query.last)
    bottom = len(whole.layers) if query.bottom is None else query.bottom
    is_fine = whole.width > 1 and (last - first + 1) < columns * whole.width
    grid = source.fine_grid(query.statistic, first, last, columns) if is_fine else whole
    if other is not None and query.statistic not in other.statistics():
        raise UsageError(
            f"the other run has no {query.statistic} of layers; choose another statistic",
            slug="no-statistic",
        )
    frame = grid.frame(first, last, query.top, bottom, rows=rows, columns=columns)
    layers = grid.layers[frame.top : frame.top + frame.height * frame.rows : frame.height]
    return LayerCells(
        rank=source.rank,
        statistic=query.statistic,
        total_layers=len(grid.layers),
        first_step=whole.first,
        last_step=whole.last,
        top=frame.top,
        layers_per_row=frame.height,
        rows=len(layers),
        first=frame.first,
        steps_per_column=frame.width,
        columns=frame.columns,
        layers=layers,
        cells=_encoded(grid.cells(frame)),
        least=whole.least,
        greatest=whole.greatest,
        other_cells=""
        if other is None
        else _encoded(other.grid(query.statistic).cells(frame, grid.layers)),
    )


def _inside(grid: LayerGrid, first: int | None, last: int | None) -> tuple[int, int]:
    """The first and the last step of a part of the grid; None: of all of it."""
    start = grid.first if first is None else min(max(first, grid.first), grid.last)
    return start, grid.last if last is None else min(max(last, start), grid.last)


def layer_tensors(source: TrendSource, query: CellQuery) -> LayerTensors:
    last = query.first if query.last is None else query.last
    found = source.tensors(query.statistic, query.layer, query.first, last)
    if not found:
        raise UsageError(
            f"no tensors of layer {query.layer[:200]!r} in the steps {query.first} to {last}",
            slug="no-such-tensor",
        )
    return LayerTensors(
        query.layer,
        tuple(
            LayerTensor(
                each.op,
                each.type,
                each.phase,
                "input" if each.io == "input" else "output",
                each.slot,
                each.step,
                None if each.value is None else to_wire(each.value),
                source.has_tensor(each),
            )
            for each in found
        ),
    )


def bounded(value: int, most: int, name: str) -> int:
    """``value``, from 1 to ``most``; UsageError if it is not."""
    if not 1 <= value <= most:
        raise UsageError(f"{name} must be from 1 to {most} (got {value})", slug="bad-request")
    return value


def _by_optimizer(series: StepSeries, optimizers: Mapping[int, str]) -> dict[str, StepSeries]:
    """A series for each optimizer: the steps of a GAN's two cannot be compared with each other."""
    if len(set(optimizers.values())) <= 1:
        return {"": series}
    of_steps = np.array([optimizers.get(step, "") for step in series.steps.tolist()])
    found: dict[str, StepSeries] = {}
    for name in dict.fromkeys(of_steps.tolist()):
        own = of_steps == name
        found[name] = StepSeries(
            series.steps[own], series.values[own], series.low[own], series.high[own]
        )
    return found


def signal_curve(
    name: str,
    series: StepSeries,
    first: int | None,
    last: int | None,
    points: int,
    optimizer: str = "",
) -> SignalCurve:
    """The points of a series between two steps, at most about ``points``."""
    start = 0 if first is None else int(np.searchsorted(series.steps, first))
    stop = None if last is None else int(np.searchsorted(series.steps, last, "right"))
    chosen = slice(start, stop)
    steps, values = series.steps[chosen], series.values[chosen]
    kept = np.array(thinned(values, points), np.int64)
    low, high = series.low[chosen][kept], series.high[chosen][kept]
    has_range = bool((low < high).any())
    return SignalCurve(
        name,
        tuple(steps[kept].tolist()),
        _numbers(values[kept]),
        _numbers(low) if has_range else (),
        _numbers(high) if has_range else (),
        optimizer,
    )


def _numbers(values: NDArray[np.float64]) -> tuple[Number | None, ...]:
    return tuple(each if math.isfinite(each) else to_wire(each) for each in values.tolist())


def _encoded(cells: Cells) -> str:
    return b64encode(np.ascontiguousarray(cells, "<f4").tobytes()).decode("ascii")
