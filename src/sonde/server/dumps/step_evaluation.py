"""Evaluates watchpoints on one step of a dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sonde.dump.reading.directories import DumpProblem, StepDir
from sonde.server.dumps.index import IndexedDump, StepTensors, StoredTensor
from sonde.server.dumps.stored_observation import BadOutput, RankOrigins, is_late
from sonde.server.dumps.values import BadKind, DumpTensor
from sonde.server.graph.index import GraphIndex
from sonde.watch.categories import TENSOR
from sonde.watch.conditions import Evidence, undecided
from sonde.watch.evaluate import Evaluation, NodeWatches, add_origin, evaluate, make_hit
from sonde.watch.graph_memory import GraphMemory
from sonde.watch.hits import WatchpointHit
from sonde.watch.streaks import Streaks
from sonde.watch.watchpoint import Watch, WatchedNode, make_watches
from sonde.wire.convert import shown_line
from sonde.wire.shapes import Node, WatchpointSpec

_NOT_INITIAL: Final = undecided(
    "no_statistics", "the dump has the weights as they are after the first step, not before it"
)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedTensor:
    """The result for one tensor: hits without origins; NaN or Inf, if a watchpoint is about them;
    files that could not be read."""

    hits: Sequence[WatchpointHit] = ()
    bad: BadOutput | None = None
    problems: Sequence[DumpProblem] = ()

    def __bool__(self) -> bool:
        return bool(self.hits or self.bad or self.problems)


_NOTHING: Final = EvaluatedTensor()


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One step directory while it is evaluated. ``finds_bad``: a watchpoint is about NaN or Inf;
    ``finds_only_bad``: all are."""

    watches: Sequence[Watch]
    listing: StepTensors
    graph: GraphIndex | None
    memory: GraphMemory | None
    before: StepTensors | None
    finds_bad: bool
    finds_only_bad: bool
    planned: dict[str, NodeWatches] = field(default_factory=dict)

    @property
    def tensors(self) -> Sequence[StoredTensor]:
        """The outputs; if the dump has none, the inputs."""
        outputs = [each for each in self.listing.tensors if each.io == "output"]
        return outputs or self.listing.tensors

    def node(self, op: str) -> Node | None:
        return self.graph.node(op) if self.graph is not None and op in self.graph.numbers else None

    def watches_of(self, tensor: StoredTensor, node: Node | None) -> NodeWatches:
        found = self.planned.get(tensor.op)
        if found is None:
            scope = tensor.op.rpartition("/")[0] if node is None else node.scope
            categories = TENSOR if node is None else node.categories
            is_leaf = node is not None and node.kind != "op"
            watched = WatchedNode(tensor.op, tensor.op_type, scope, categories, is_leaf)
            found = self.planned[tensor.op] = NodeWatches.select(self.watches, watched)
        return found


def evaluate_step(
    dump: IndexedDump,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    previous: StepDir | None,
    part: tuple[int, int] = (0, 1),
) -> Iterator[EvaluatedTensor]:
    """Evaluate each tensor of a step, or of one of its parts (number, count), by itself.
    ``complete_hits`` adds what depends on several tensors."""
    step = _step(dump, directory, previous, make_watches(specs, directory.rank, ()))
    tensors = step.tensors
    number, parts = part
    size = -(-len(tensors) // parts)
    for tensor in tensors[number * size : (number + 1) * size]:
        yield _evaluate(step, tensor)


def graph_of(dump: IndexedDump, directory: StepDir) -> GraphIndex | None:
    return None if directory.graph_id is None else dump.graph(directory.rank, directory.graph_id)


def complete_hits(
    origins: RankOrigins,
    listing: StepTensors,
    graph: GraphIndex | None,
    specs: Sequence[WatchpointSpec],
    evaluated: Sequence[EvaluatedTensor],
    streaks: Streaks,
) -> Iterator[WatchpointHit]:
    """The hits of a step with the origins of NaN and Inf; those of values that are no fault are
    withdrawn, and those that have not lasted long enough are held back."""
    streaks.begin_step(listing.step.step)
    bad = [each.bad for each in evaluated if each.bad is not None]
    if graph is not None:
        origins.take(listing, graph, bad)
    watches = {
        (each.spec.id, each.label): each for each in make_watches(specs, listing.step.rank, ())
    }
    places = {(each.op, each.slot) for each in bad} if graph is not None else set()
    for each in evaluated:
        for hit in each.hits:
            where = hit.where
            is_bad = where.io == "output" and (where.op, where.slot) in places
            found: WatchpointHit | None = hit
            if hit.verdict == "hit" and is_bad:
                found = _with_origin(origins, watches[hit.watchpoint, hit.rule], hit)
            if found is not None:
                found = streaks.admit(found, watches[hit.watchpoint, hit.rule])
            if found is not None:
                yield found


def _with_origin(origins: RankOrigins, watch: Watch, hit: WatchpointHit) -> WatchpointHit | None:
    """The hit of NaN or Inf with their origin; None if the condition is about ops that produce
    them, and this op passes them on."""
    op = hit.where.op
    traced = origins.tracker.traced(op)
    if traced is None:
        return hit
    if watch.needs.inputs and not (traced.is_producer and traced.origin.kind == "op"):
        return None
    found = add_origin(hit, traced, origins.tracker.chain(op))
    if watch.level == "overflow" and not traced.origin.is_fault and not watch.names(op):
        return found.withdrawn(traced.origin)
    return found


def _step(
    dump: IndexedDump, directory: StepDir, previous: StepDir | None, watches: Sequence[Watch]
) -> _Step:
    graph = graph_of(dump, directory)
    compares = any(each.needs.previous or each.needs.previous_statistics for each in watches)
    is_first = directory.step == 0 and (previous is None or previous.step == 0)
    return _Step(
        [each for each in watches if is_first or each.level != "initial"],
        dump.listing(directory),
        graph,
        None if graph is None else graph.memory,
        dump.listing(previous) if compares and previous is not None else None,
        any(each.is_about_non_finite or each.needs.inputs for each in watches),
        all(each.is_about_non_finite for each in watches),
    )


def _evaluate(step: _Step, stored: StoredTensor) -> EvaluatedTensor:
    is_output = stored.io == "output"
    if is_output and step.memory is not None and not step.memory.is_filled(stored.op, stored.slot):
        return _NOTHING
    node = step.node(stored.op)
    tensor = DumpTensor(step.listing, stored, step.before)
    bad = None
    if step.finds_bad and node is not None and is_output:
        kind = tensor.bad_kind()
        if kind == "finite" and step.finds_only_bad:
            return _NOTHING
        bad = _bad_output(tensor, kind)
    directory = step.listing.step
    planned = step.watches_of(stored, node)
    # Which inputs were finite is known to ``complete_hits``, if there is a graph.
    inputs_finite = None if step.graph is None else True
    found = list(evaluate(planned, tensor, directory.step, lambda: inputs_finite))
    initial = [each for each in planned.watches if each.level == "initial"]
    if initial and node is not None and step.graph and is_late(step.listing, step.graph, node):
        found = [each for each in found if each.watch.level != "initial"]
        found += (Evaluation(stored.op, each, tensor, _NOT_INITIAL, Evidence()) for each in initial)
    sources = () if node is None else node.sources
    hits = [
        make_hit(
            each,
            directory.step,
            stored.order,
            rank=directory.rank,
            source=shown_line(sources),
        )
        for each in found
    ]
    return EvaluatedTensor(hits, bad, tensor.problems)


def _bad_output(tensor: DumpTensor, kind: BadKind | None) -> BadOutput | None:
    if kind is None or kind == "finite":
        return None
    stored = tensor.stored
    return BadOutput(stored.op, stored.slot, stored.order, kind == "nan", tensor.fingerprint())
