"""The contents of a dump as the page shows them: ranks, graphs, tensors, curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sonde.compare.losses.sources import dump_losses
from sonde.core.errors import DumpError, SondeError, UsageError
from sonde.debugger.values.answers import Values
from sonde.dump.lineage import KINDS, RunLineage
from sonde.dump.reading.directories import StepDir
from sonde.dump.reading.stored_statistics import tensor_over_steps
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.row_statistics import RowStatistics
from sonde.server.dumps.values import DumpTensor
from sonde.server.graph.differences import difference, step_ranges
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues, statistic_value
from sonde.trends.places import run_lineages
from sonde.wire.api import RankView, StatisticCurve, StatisticPoint
from sonde.wire.graphs import GraphInfo
from sonde.wire.numbers import to_wire
from sonde.wire.questions import OpTensor, OpTensors
from sonde.wire.shapes import LossPoint, Metadata, StatisticNumbers, TensorName, TensorType

_MOST_POINTS: Final = 1000
_MOST_COMPUTED: Final = 3000
"""For so many tensors without a row, statistics are computed to colour a graph."""
NO_GRAPH: Final = -1
"""The number of the graph of steps without one: their nodes, without edges."""


class DumpContents:
    """What one dump contains. May be used from any thread."""

    def __init__(self, index: IndexedDump) -> None:
        self.index = index
        self._metadata = cache(self._read_metadata)
        self.usual_graph = cache(self._find_usual_graph)
        self._graphs_of_steps = cache(self._find_graphs_of_steps)
        self._without_graph = cache(index.without_graph)
        self.losses = cache(self._read_losses)
        self._difference = cache(_difference)

    def chosen_rank(self, rank: int | None) -> int:
        """``rank``, or the lowest for None; UsageError if there is no such rank."""
        ranks = self.index.dump.ranks
        if rank is None:
            return ranks[0]
        if rank not in ranks:
            raise UsageError(
                f"the dump has no rank {rank}; it has {list(ranks)}", slug="no-such-rank"
            )
        return rank

    def _read_losses(self, rank: int) -> tuple[LossPoint, ...]:
        """The losses of a rank, found in the dump as ``sonde loss`` finds them; none if it has no
        loss that can be told from its other tensors."""
        try:
            found = dump_losses(self.index.dump, rank)
        except SondeError:
            return ()
        pairs = zip(found.steps, found.values, strict=True)
        return tuple(LossPoint(step, to_wire(loss), 0.0, None, True) for step, loss in pairs)

    def rank_view(self, rank: int, hits: int) -> RankView:
        steps = self.index.steps(rank)
        return RankView(
            rank=rank,
            state="ended",
            step=steps[-1].step if steps else 0,
            graph=self.usual_graph(rank),
            op=None,
            order=None,
            reason=None,
            message="a dump on disk",
            hits=hits,
            graphs=self._infos(rank),
            steps=tuple(dict.fromkeys(each.step for each in steps)),
            metadata=self._metadata(rank),
            seconds=None,
            bare_seconds=None,
        )

    def _read_metadata(self, rank: int) -> Metadata:
        dump = self.index.dump
        facts = {name: str(value) for name, value in dump.metadata(rank).config.items()}
        lineage = self._lineage(rank)
        if lineage.started:
            facts["started"] = lineage.started
        facts |= {
            kind.replace("_", " "): ", ".join(found)
            for kind in KINDS
            if (found := getattr(lineage, kind))
        }
        return Metadata(
            host="",
            pid=0,
            rank=rank,
            world_size=len(dump.ranks),
            device=facts.pop("device_target", ""),
            framework=facts.pop("framework", "mindspore" if "ms_version" in facts else ""),
            framework_version=facts.pop("framework_version", facts.pop("ms_version", "")),
            sonde_version=facts.pop("sonde_version", ""),
            python_version="",
            script=lineage.script or ", ".join(dump.nets(rank)),
            arguments=tuple(lineage.arguments),
            working_directory=lineage.working_directory or str(dump.path),
            started=0.0,
            extra=facts,
        )

    def _lineage(self, rank: int) -> RunLineage:
        """Which script, data and checkpoints made the dump, as far as that is recorded."""
        try:
            return run_lineages(self.index.dump.path).get(rank, RunLineage())
        except DumpError:
            return RunLineage()

    # ------------------------------------------------------------------ graphs

    def _infos(self, rank: int) -> tuple[GraphInfo, ...]:
        known = {index.graph: index for index in self.index.known_graphs(rank)}
        usual = known.get(self.usual_graph(rank))
        steps: dict[int | None, list[int]] = {}
        for each in self.index.steps(rank):
            steps.setdefault(each.graph_id, []).append(each.step)
        return tuple(
            GraphInfo(
                number,
                f"graph {number}",
                len(known[number]) if number in known else 0,
                True,
                steps=step_ranges(sorted(set(steps.get(number, ())))),
                difference=self._difference(known[number], usual)
                if number in known and usual is not None
                else "",
                is_compiled=number in known and known[number].is_compiled,
            )
            for number in self.graph_ids(rank)
        )

    def graph_ids(self, rank: int) -> tuple[int, ...]:
        return self.index.dump.graph_ids(rank) or (NO_GRAPH,)

    def _find_usual_graph(self, rank: int) -> int:
        """The graph of most steps."""
        steps = Counter(each.graph_id for each in self.index.steps(rank))
        return max(self.graph_ids(rank), key=lambda each: (steps[each], each))

    def graph_of(self, rank: int, step: int) -> int | None:
        """The graph of a step; None if there is none, or several."""
        graphs = self._graphs_of_steps(rank).get(step, set())
        return next(iter(graphs)) if len(graphs) == 1 else None

    def _find_graphs_of_steps(self, rank: int) -> dict[int, set[int | None]]:
        found: dict[int, set[int | None]] = {}
        for each in self.index.steps(rank):
            found.setdefault(each.step, set()).add(each.graph_id)
        return found

    def graph(self, rank: int | None, graph: int | None) -> GraphIndex:
        """The graph, or the usual one; without edges if it cannot be read."""
        rank = self.chosen_rank(rank)
        wanted = self.usual_graph(rank) if graph is None else graph
        known = self.graph_ids(rank)
        if wanted not in known:
            raise UsageError(
                f"the dump has no graph {wanted}; it has {list(known)}", slug="no-such-graph"
            )
        found = None if wanted == NO_GRAPH else self.index.graph(rank, wanted)
        return found or self._without_graph(rank, None if wanted == NO_GRAPH else wanted)

    def has_op(self, rank: int, op: str) -> bool:
        """Whether a step of the dump has tensors of the op."""
        return bool(self.index.steps(rank)) and op in self.graph(rank, None).numbers

    # ----------------------------------------------------------------- tensors

    def values(self, rank: int | None, name: TensorName) -> Values:
        """The values of a tensor; UsageError if the dump does not have them."""
        rank = self.chosen_rank(rank)
        found = DumpTensor(*self.index.find(rank, name.op, name.io, name.slot, name.step))
        if not found.has_values:
            raise UsageError(
                "the dump has only statistics of this tensor; dump with saved_data 'tensor' or "
                "'full' to have values",
                slug="no-values",
            )
        return found.values()

    def op_tensors(self, rank: int | None, tensor: TensorName) -> OpTensors:
        """The tensors of an op in the given step, or in the last step that has some."""
        steps: dict[tuple[str, int], list[int]] = {}
        shown: list[DumpTensor] = []
        for directory in self.index.known_steps(self.chosen_rank(rank), tensor.step):
            listing = self.index.listing_for(directory, tensor.op)
            found = listing.of_op(tensor.op)
            for each in found:
                if each.file is not None:
                    steps.setdefault((each.io, each.slot), []).append(directory.step)
            if found and tensor.step in (None, directory.step):
                shown = [DumpTensor(listing, each) for each in found]
        if not shown:
            raise UsageError(f"the dump has no tensors of {tensor.op}", slug="no-such-tensor")
        shown.sort(key=lambda each: (each.io, each.slot))
        return OpTensors(
            tensor.op,
            shown[0].listing.step.step,
            tuple(
                OpTensor(
                    each.io,
                    each.slot,
                    each.type,
                    each.numbers(),
                    each.has_values,
                    tuple(steps.get((each.io, each.slot), ())),
                    "" if each.has_values else "the dump has only statistics of it",
                )
                for each in shown
            ),
        )

    def op_values(
        self, rank: int | None, graph: int | None, step: int | None, statistic: str
    ) -> OpValues:
        """A statistic of the ops in a step, by default the last step of the graph. Without rows of
        statistics, those of the first ops are computed from their values."""
        rank = self.chosen_rank(rank)
        wanted = self.usual_graph(rank) if graph is None else graph
        directories = [
            each
            for each in self.index.steps(rank)
            if (each.step == step if step is not None else each.graph_id in (wanted, None))
        ]
        found: dict[str, list[StatisticNumbers]] = {}
        for directory in directories if step is not None else directories[-1:]:
            for op, numbers in self._op_numbers(directory):
                found.setdefault(op, []).append(numbers)
        values = {op: statistic_value(statistic, numbers) for op, numbers in found.items()}
        last = directories[-1].step if directories else None
        return OpValues(
            statistic, last, {op: value for op, value in values.items() if value is not None}
        )

    def _op_numbers(self, directory: StepDir) -> Iterator[tuple[str, StatisticNumbers]]:
        listing = self.index.listing(directory)
        computed = 0
        for stored in listing.tensors:
            tensor = DumpTensor(listing, stored)
            if stored.io != "output" or (tensor.row is None and computed >= _MOST_COMPUTED):
                continue
            computed += tensor.row is None
            numbers = tensor.row.numbers() if tensor.row is not None else tensor.numbers()
            if numbers is not None:
                yield stored.op, numbers

    def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve:
        """The statistics of a tensor over all steps, or over evenly spaced ones of very many; of
        captured steps, over those whose tensors are computed."""
        directories = self.index.known_steps(self.chosen_rank(rank), tensor.step)
        if directories and all(each.stored and not each.path.exists() for each in directories):
            return _stored_curve(directories, tensor)
        found: dict[int, DumpTensor] = {}
        for directory in directories:
            listing = self.index.listing_for(directory, tensor.op)
            stored = listing.find(tensor.op, tensor.io, tensor.slot)
            if stored is not None:
                found[directory.step] = DumpTensor(listing, stored)
        if not found:
            raise _no_tensor(tensor)
        every = max(1, len(found) // _MOST_POINTS)
        points: list[StatisticPoint] = []
        for step, each in sorted(found.items())[::every]:
            numbers = each.numbers()
            if numbers is not None:
                points.append(StatisticPoint(step, numbers))
        kind = next(iter(found.values())).type
        return StatisticCurve(tensor.op, tensor.io, tensor.slot, kind, tuple(points))


def _stored_curve(directories: Sequence[StepDir], tensor: TensorName) -> StatisticCurve:
    """The curve of a tensor whose statistics are in Parquet files, by one query."""
    stores = {each.stored.directory for each in directories if each.stored is not None}
    rows = [
        row
        for each in sorted(stores)
        for row in tensor_over_steps(each, tensor.op, tensor.io, tensor.slot)
    ]
    if not rows:
        raise _no_tensor(tensor)
    points = [
        StatisticPoint(step, RowStatistics(row).numbers())
        for step, row in rows[:: max(1, len(rows) // _MOST_POINTS)]
    ]
    kind = TensorType(rows[0][1].dtype, rows[0][1].shape)
    return StatisticCurve(tensor.op, tensor.io, tensor.slot, kind, tuple(points))


def _no_tensor(tensor: TensorName) -> UsageError:
    return UsageError(
        f"the dump has no {tensor.io} {tensor.slot} of {tensor.op}", slug="no-such-tensor"
    )


def _difference(graph: GraphIndex, usual: GraphIndex) -> str:
    return difference((graph.nodes, graph.numbers), (usual.nodes, usual.numbers))
