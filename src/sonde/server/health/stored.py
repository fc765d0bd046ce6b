"""The statistics of a run on disk, for its health page."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from sonde.compare.runs.loss import SEED, last_loss
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError, UsageError
from sonde.core.operators.kinds import is_plumbing
from sonde.dump.statistic_store.files import list_files
from sonde.server.health.source import TrendSource
from sonde.trends.database import CellTensor, StepSeries, TrendDatabase
from sonde.trends.layer_grid import LayerGrid
from sonde.trends.places import statistic_directories
from sonde.trends.views import LAYER_STATISTICS
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import LossPoint

MOST_CELLS: Final = 40_000_000
"""So many cells of a statistic are kept in memory, 4 bytes each; a part of a larger run is read
from its files when the page shows it more closely."""
_COLUMNS_OF_STEP: Final = 64
"""At most so many columns for each step that has rows: steps may be far apart."""
_MOST_GRIDS: Final = 4
_MOST_LOSSES: Final = 1_000_000
Losses = Callable[[int], Sequence[LossPoint]]
OpNames = Callable[[int, str], bool]


class StoredTrends:
    """The Parquet files of one dump, opened when they are first asked for. Used from any thread."""

    def __init__(self, path: Path, losses: Losses, has_op: OpNames) -> None:
        self._path = path
        self.losses = losses
        self.has_op = has_op
        self.lock = threading.RLock()
        self._database: TrendDatabase | None = None
        self._grids: OrderedDict[tuple[int, str], LayerGrid] = OrderedDict()

    @cached_property
    def has_files(self) -> bool:
        """Whether there were Parquet files when the run was opened; no file is read for it."""
        try:
            found = statistic_directories(self._path).values()
        except DumpError:
            return False
        return any(list_files(directory, "rows") for directory in found)

    def of_rank(self, rank: int) -> TrendSource:
        """What is known of a rank; without statistics in Parquet files its losses, and why."""
        with self.lock:
            try:
                if self._database is None:
                    self._database = TrendDatabase(self._path)
                self._database.refresh()
            except DumpError as error:
                return _LossesOnly(rank, error.message, self.losses)
            if rank not in self._database.ranks:
                return _LossesOnly(rank, f"rank {rank} has no statistics of steps", self.losses)
            return _RankTrends(rank, self, self._database)

    def loss_points(self, rank: int) -> Sequence[LossPoint]:
        """The losses of a rank: by one query if they are in Parquet files, else read step by
        step."""
        source = self.of_rank(rank)
        if not isinstance(source, _RankTrends):
            return self.losses(rank)
        found = source.loss()
        return [
            LossPoint(step, to_wire(value), 0.0, None, True)
            for step, value in zip(found.steps.tolist(), found.values.tolist(), strict=True)
        ]

    def grid(self, database: TrendDatabase, rank: int, statistic: str) -> LayerGrid:
        """The whole map of a statistic, with the steps that were added since the last call."""
        with self.lock:
            key = (rank, statistic)
            known = self._grids.pop(key, None)
            found = _current(database, rank, statistic, known)
            if found is None:
                raise UsageError(
                    f"the run has no {statistic} of layers in rank {rank}", slug="no-statistic"
                )
            self._grids[key] = found
            while len(self._grids) > _MOST_GRIDS:
                self._grids.popitem(last=False)
            return found

    def close(self) -> None:
        with self.lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def _current(
    database: TrendDatabase, rank: int, statistic: str, known: LayerGrid | None
) -> LayerGrid | None:
    new = 0 if known is None else (database.steps()[1] - known.last) // known.width
    if known is not None and new <= 0:
        return known
    if known is not None and new * len(known.layers) <= MOST_CELLS:
        end = known.last + new * known.width
        more = LayerGrid.of(
            database.layer_matrix(statistic, first=known.last + 1, last=end, columns=new, rank=rank)
        )
        if known.nbytes + more.nbytes <= 8 * MOST_CELLS and {*more.layers} <= {*known.layers}:
            return known.extended(more)
    fitting = MOST_CELLS // max(database.layer_count(rank), 1)
    columns = max(min(fitting, _COLUMNS_OF_STEP * database.step_count(rank)), 1000)
    found = database.layer_matrix(statistic, columns=columns, rank=rank)
    return LayerGrid.of(found) if found.layers else None


class _RankTrends:
    """One rank of a dump with statistics in Parquet files."""

    missing = ""

    def __init__(self, rank: int, trends: StoredTrends, database: TrendDatabase) -> None:
        self.rank = rank
        self._trends = trends
        self._database = database

    def signals(self) -> Mapping[str, StepSeries]:
        """Those that were measured; of others the losses, the time between steps, and of the
        gradients the largest norm of a layer."""
        found = dict(self._database.signals(self.rank))
        if "loss" not in found:
            found["loss"] = self._computed_loss()
        if "step_seconds" not in found:
            found["step_seconds"] = self._database.step_seconds(self.rank)
        if "grad_norm" not in found and "grad_norm" in self.statistics():
            found["grad_norm"] = self.grid("grad_norm").greatest_of_steps()
        return {name: each for name, each in found.items() if each.steps.size}

    def loss(self) -> StepSeries:
        """The loss that was measured, else what `compare.runs.loss` takes for it; no steps without
        one."""
        measured = self._database.signals(self.rank).get("loss")
        return self._computed_loss() if measured is None else measured

    def _computed_loss(self) -> StepSeries:
        """It is found in the op table: to read every step takes minutes in a long run."""
        seed = self._database.query(
            "select name from ops where rank = ? and type = ? and io = 'input' and slot = 0 "
            "and phase = 'backward' and count = 1 order by id limit 1",
            (self.rank, SEED),
        ).rows
        if seed:
            return self._loss_of(seed[0][0], "input")
        scalars = self._database.query(
            "select name, type, dtype, id < coalesce((select min(id) from ops where rank = $1 and "
            "phase = 'backward'), id + 1) from ops where rank = $1 and kind = 'op' and count = 1 "
            "and io = 'output' and slot = 0 and phase = 'forward' order by id",
            (self.rank,),
        ).rows
        found = [
            (name, kind, is_before)
            for name, kind, dtype, is_before in scalars
            if dtype in BY_NAME and BY_NAME[dtype].is_float and not is_plumbing(kind)
        ]
        found = [each for each in found if each[2]] or found
        if not found:
            none = np.zeros(0)
            return StepSeries(np.zeros(0, np.int64), none, none, none)
        return self._loss_of(found[last_loss([kind for _, kind, _ in found])][0], "output")

    def _loss_of(self, op: str, io: str) -> StepSeries:
        return self._database.series(op, "max", io=io, rank=self.rank, points=_MOST_LOSSES)

    def optimizers(self) -> Mapping[int, str]:
        return {}

    def statistics(self) -> Sequence[str]:
        known = self._database.layer_statistics(self.rank)
        return [name for name in LAYER_STATISTICS if name in known]

    def grid(self, statistic: str) -> LayerGrid:
        return self._trends.grid(self._database, self.rank, statistic)

    def fine_grid(self, statistic: str, first: int, last: int, columns: int) -> LayerGrid:
        found = self._database.layer_matrix(
            statistic, first=first, last=last, columns=columns, rank=self.rank
        )
        return LayerGrid.of(found).with_layers(self.grid(statistic).layers)

    def tensors(self, statistic: str, layer: str, first: int, last: int) -> Sequence[CellTensor]:
        return self._database.cell_tensors(statistic, layer, first, last, rank=self.rank)

    def has_tensor(self, tensor: CellTensor) -> bool:
        return self._trends.has_op(self.rank, tensor.op)


class _LossesOnly:
    """One rank of a dump without statistics in Parquet files."""

    def __init__(self, rank: int, missing: str, losses: Losses) -> None:
        self.rank = rank
        self.missing = missing
        self._losses = losses

    def signals(self) -> Mapping[str, StepSeries]:
        found = loss_series(self._losses(self.rank))
        return {"loss": found} if found.steps.size else {}

    def optimizers(self) -> Mapping[int, str]:
        return {}

    def statistics(self) -> Sequence[str]:
        return ()

    def grid(self, statistic: str) -> LayerGrid:
        raise UsageError(self.missing, slug="no-trends")

    def fine_grid(self, statistic: str, first: int, last: int, columns: int) -> LayerGrid:
        return self.grid(statistic)

    def tensors(self, statistic: str, layer: str, first: int, last: int) -> Sequence[CellTensor]:
        raise UsageError(self.missing, slug="no-trends")

    def has_tensor(self, tensor: CellTensor) -> bool:
        return False


def loss_series(points: Sequence[LossPoint]) -> StepSeries:
    """The losses of the steps that have one."""
    known = [point for point in points if point.loss is not None]
    values = np.array([float(point.loss or 0.0) for point in known], np.float64)
    return StepSeries(np.array([point.step for point in known], np.int64), values, values, values)
