"""The contents of a dump as the page shows them: ranks, graphs, tensors, curves."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Final

from sonde.core.errors import UsageError
from sonde.debugger.values.answers import Values
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.values import DumpTensor
from sonde.server.graph.index import GraphIndex
from sonde.wire.api import GraphInfo, RankView, StatisticCurve, StatisticPoint
from sonde.wire.questions import OpTensor, OpTensors
from sonde.wire.shapes import Metadata, TensorName

_MOST_POINTS: Final = 1000
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

    def rank_view(self, rank: int, hits: int) -> RankView:
        steps = self.index.steps(rank)
        known = {index.graph: len(index) for index in self.index.known_graphs(rank)}
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
            graphs=tuple(
                GraphInfo(number, f"graph {number}", known.get(number, 0), True)
                for number in self.graph_ids(rank)
            ),
            steps=tuple(dict.fromkeys(each.step for each in steps)),
            metadata=self._metadata(rank),
            seconds=None,
            bare_seconds=None,
        )

    def _read_metadata(self, rank: int) -> Metadata:
        dump = self.index.dump
        facts = {name: str(value) for name, value in dump.metadata(rank).config.items()}
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
            script=", ".join(dump.nets(rank)),
            arguments=(),
            working_directory=str(dump.path),
            started=0.0,
            extra=facts,
        )

    # ------------------------------------------------------------------ graphs

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
        for directory in self.index.steps(self.chosen_rank(rank)):
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

    def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve:
        """The statistics of a tensor over all steps, or over evenly spaced ones of very many."""
        found: dict[int, DumpTensor] = {}
        for directory in self.index.steps(self.chosen_rank(rank)):
            listing = self.index.listing_for(directory, tensor.op)
            stored = listing.find(tensor.op, tensor.io, tensor.slot)
            if stored is not None:
                found[directory.step] = DumpTensor(listing, stored)
        if not found:
            raise UsageError(
                f"the dump has no {tensor.io} {tensor.slot} of {tensor.op}", slug="no-such-tensor"
            )
        every = max(1, len(found) // _MOST_POINTS)
        points: list[StatisticPoint] = []
        for step, each in sorted(found.items())[::every]:
            numbers = each.numbers()
            if numbers is not None:
                points.append(StatisticPoint(step, numbers))
        kind = next(iter(found.values())).type
        return StatisticCurve(tensor.op, tensor.io, tensor.slot, kind, tuple(points))
