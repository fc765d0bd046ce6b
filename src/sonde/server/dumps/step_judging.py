"""Watchpoints evaluated on one step of a dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import msgspec

from sonde.debugger.hit_text import wire_value
from sonde.dump.reading.directories import StepDir
from sonde.server.dumps.index import IndexedDump, StepTensors, StoredTensor
from sonde.server.dumps.row_statistics import MissingStatisticError
from sonde.server.dumps.stored_observation import BadOutput, RankOrigins, memory_of_graph
from sonde.server.dumps.values import DumpTensor
from sonde.server.graph.index import GraphIndex
from sonde.watch.conditions import Evidence, Judgement
from sonde.watch.graph_memory import GraphMemory
from sonde.watch.hit_text import chain_from, since, why_expected
from sonde.watch.watchpoint import Watch, make_watches
from sonde.wire.shapes import Category, Hit, Part, WatchpointSpec

_TENSOR: Final[tuple[Category, ...]] = ("tensor",)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedTensor:
    """What one tensor of a step shows: ``hits`` as it alone tells them, and whether it has NaN or
    Inf, where a watchpoint is about that."""

    hits: Sequence[Hit]
    bad: BadOutput | None


@dataclass(slots=True, eq=False)
class _Step:
    """One step directory while it is judged."""

    listing: StepTensors
    graph: GraphIndex | None
    memory: GraphMemory | None
    previous: StepTensors | None
    is_first: bool
    finds_bad: bool

    @property
    def tensors(self) -> Sequence[StoredTensor]:
        """Outputs; inputs where a dump has nothing else."""
        outputs = [each for each in self.listing.tensors if each.io == "output"]
        return outputs or self.listing.tensors


def judge_step(
    shelf: IndexedDump,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    previous: StepDir | None,
    part: tuple[int, int] = (0, 1),
) -> Iterator[JudgedTensor]:
    """Evaluate every tensor of a step, or of one of its parts, by itself. ``settle`` puts them
    together."""
    watches = make_watches(specs, directory.rank, ())
    step = _step(shelf, directory, previous, watches)
    tensors = step.tensors
    number, parts = part
    size = -(-len(tensors) // parts)
    for tensor in tensors[number * size : (number + 1) * size]:
        yield _judge(step, watches, tensor)


def graph_of(shelf: IndexedDump, directory: StepDir) -> GraphIndex | None:
    return None if directory.graph_id is None else shelf.graph(directory.rank, directory.graph_id)


def settle(
    origins: RankOrigins,
    listing: StepTensors,
    graph: GraphIndex | None,
    specs: Sequence[WatchpointSpec],
    judged: Sequence[JudgedTensor],
) -> Iterator[Hit]:
    """The hits of a step: with where NaN and Inf come from, and without those that are no fault."""
    bad = [each.bad for each in judged if each.bad is not None]
    if graph is not None:
        origins.take(listing, graph, bad)
    watches = {
        (each.spec.id, each.label): each for each in make_watches(specs, listing.step.rank, ())
    }
    places = {(each.op, each.slot) for each in bad}
    for each in judged:
        for hit in each.hits:
            watch = watches[hit.watchpoint, hit.condition]
            is_bad = hit.io == "output" and (hit.op, hit.slot) in places
            found = hit
            if hit.verdict == "hit" and is_bad and graph is not None:
                traced = _traced(origins, watch, hit)
                if traced is None:
                    continue
                found = traced
            yield found


def _traced(origins: RankOrigins, watch: Watch, hit: Hit) -> Hit | None:
    """A hit of NaN or Inf with where they come from; None if the condition is about ops that make
    them, and this one passes them on."""
    traced = origins.tracker.traced(hit.op)
    if traced is None:
        return hit
    if watch.needs.inputs and not (traced.is_producer and traced.origin.kind == "op"):
        return None
    origin = traced.origin
    part: Part = "producer" if traced.is_producer else "carrier"
    why, verdict = hit.why + since(hit.op, traced, hit.step), hit.verdict
    if watch.level == "overflow" and not origin.is_fault and not watch.names(hit.op):
        why, verdict = why_expected(origin), "undecided"
    chain = chain_from(origin.op, origins.tracker.chain(hit.op))
    return msgspec.structs.replace(
        hit, part=part, origin=origin.op, chain=chain, why=why, verdict=verdict
    )


def _step(
    shelf: IndexedDump, directory: StepDir, previous: StepDir | None, watches: Sequence[Watch]
) -> _Step:
    listing, graph = shelf.listing(directory), graph_of(shelf, directory)
    is_asked = any(each.needs.previous or each.needs.previous_statistics for each in watches)
    before = shelf.listing(previous) if is_asked and previous is not None else None
    is_first = directory.step == 0 and (previous is None or previous.step == 0)
    finds_bad = any(each.is_about_non_finite or each.needs.inputs for each in watches)
    memory = None if graph is None else memory_of_graph(graph)
    return _Step(listing, graph, memory, before, is_first, finds_bad)


def _judge(step: _Step, watches: Sequence[Watch], stored: StoredTensor) -> JudgedTensor:
    node = None
    if step.graph is not None and stored.op in step.graph.numbers:
        node = step.graph.node(stored.op)
    is_output = stored.io == "output"
    if is_output and step.memory is not None and not step.memory.is_filled(stored.op, stored.slot):
        return JudgedTensor((), None)
    scope = stored.op.rpartition("/")[0] if node is None else node.scope
    categories = _TENSOR if node is None else node.categories
    is_leaf = node is not None and node.kind != "op"
    wanted = [
        watch
        for watch in watches
        if watch.aims_at(stored.op, stored.op_type, scope, categories, is_leaf=is_leaf)
        and (watch.level != "initial" or step.is_first)
    ]
    tensor = DumpTensor(step.listing, stored)
    bad = _bad(tensor) if step.finds_bad and node is not None and is_output else None
    hits = [
        _hit(step, watch, tensor, judgement)
        for watch, judgement in _judgements(step, tensor, wanted)
        if judgement.verdict != "clear"
    ]
    return JudgedTensor(hits, bad)


def _bad(tensor: DumpTensor) -> BadOutput | None:
    kind = tensor.bad_kind()
    if kind is None or kind == "finite":
        return None
    stored = tensor.stored
    return BadOutput(stored.op, stored.slot, stored.order, kind == "nan", tensor.fingerprint())


def _judgements(
    step: _Step, tensor: DumpTensor, watches: Sequence[Watch]
) -> Iterator[tuple[Watch, Judgement]]:
    """From the row where it suffices, else from the values, which are read once.

    Whether the inputs of an op were finite is not asked here: ``settle`` knows.
    """
    if not watches:
        return
    needs = reduce(or_, (watch.needs for watch in watches))
    previous = _previous(step, tensor)
    inputs_finite = None if step.graph is None else True
    row = tensor.stored.row is not None
    quick = tensor.evidence(needs, previous, inputs_finite, from_row=True) if row else None
    whole: Evidence | None = None
    for watch in watches:
        is_simple = not watch.needs.between and not watch.needs.previous
        if quick is not None and is_simple:
            try:
                judgement = watch.judge(quick)
                if judgement.verdict == "clear" or not tensor.has_values:
                    yield watch, judgement
                    continue
            except MissingStatisticError as error:
                if not tensor.has_values:
                    why = f"the dump has no {error.name.replace('_', ' ')} of it"
                    yield watch, Judgement("undecided", why)
                    continue
        if whole is None:
            whole = tensor.evidence(needs, previous, inputs_finite, from_row=False)
        yield watch, watch.judge(whole)


def _previous(step: _Step, tensor: DumpTensor) -> DumpTensor | None:
    if step.previous is None:
        return None
    stored = tensor.stored
    found = step.previous.find(stored.op, stored.io, stored.slot)
    return None if found is None else DumpTensor(step.previous, found)


def _hit(step: _Step, watch: Watch, tensor: DumpTensor, judgement: Judgement) -> Hit:
    stored = tensor.stored
    node = None
    if step.graph is not None and stored.op in step.graph.numbers:
        node = step.graph.node(stored.op)
    return Hit(
        number=0,
        watchpoint=watch.spec.id,
        condition=watch.label,
        rank=step.listing.step.rank,
        step=step.listing.step.step,
        order=stored.order,
        op=stored.op,
        io=stored.io,
        slot=stored.slot,
        type=tensor.type,
        verdict="hit" if judgement.verdict == "hit" else "undecided",
        why=judgement.why,
        values=tuple(wire_value(each) for each in judgement.values),
        source=node.sources[0] if node is not None and node.sources else None,
    )
