"""Watchpoints asked of one step of a dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from sonde.conditions import Evidence, Judgement, Value
from sonde.debugger.watches import Watch, make_watches
from sonde.dump.tree import StepDir
from sonde.server.dump_origin import StepOrigins, Trace
from sonde.server.dump_shelf import DumpShelf, Listing, StoredTensor
from sonde.server.dump_values import DumpTensor
from sonde.server.graph_index import GraphIndex
from sonde.server.row_statistics import MissingStatisticError
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import Category, Hit, ParameterValue, WatchpointSpec

_TENSOR: tuple[Category, ...] = ("tensor",)
_NO_TRACE = Trace("other", None, ())


@dataclass(slots=True, eq=False)
class _Step:
    """One step directory while it is judged."""

    listing: Listing
    graph: GraphIndex | None
    origins: StepOrigins
    former: Listing | None
    is_first: bool

    @property
    def tensors(self) -> Sequence[StoredTensor]:
        """Outputs; inputs where a dump has nothing else."""
        outputs = [each for each in self.listing.tensors if each.io == "output"]
        return outputs or self.listing.tensors


def judge_step(
    shelf: DumpShelf,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    former: StepDir | None,
    part: tuple[int, int] = (0, 1),
) -> Iterator[list[Hit]]:
    """The hits of each tensor of a step, or of one of its parts, as the step alone tells them."""
    watches = make_watches(specs, directory.rank, ())
    step = _step(shelf, directory, former, watches)
    tensors = step.tensors
    number, parts = part
    size = -(-len(tensors) // parts)
    for tensor in tensors[number * size : (number + 1) * size]:
        yield list(_judge(step, watches, tensor))


def graph_of(shelf: DumpShelf, directory: StepDir) -> GraphIndex | None:
    return None if directory.graph_id is None else shelf.graph(directory.rank, directory.graph_id)


def _step(
    shelf: DumpShelf, directory: StepDir, former: StepDir | None, watches: Sequence[Watch]
) -> _Step:
    listing, graph = shelf.listing(directory), graph_of(shelf, directory)
    is_asked = any(each.needs.previous or each.needs.previous_statistics for each in watches)
    before = shelf.listing(former) if is_asked and former is not None else None
    is_first = directory.step == 0 and (former is None or former.step == 0)
    return _Step(listing, graph, StepOrigins(listing, graph), before, is_first)


def _judge(step: _Step, watches: Sequence[Watch], stored: StoredTensor) -> Iterator[Hit]:
    node = None
    if step.graph is not None and stored.op in step.graph.numbers:
        node = step.graph.node(stored.op)
    scope = stored.op.rpartition("/")[0] if node is None else node.scope
    categories = _TENSOR if node is None else node.categories
    is_leaf = node is not None and node.kind != "op"
    wanted = [
        watch
        for watch in watches
        if watch.aims_at(stored.op, stored.op_type, scope, categories, is_leaf=is_leaf)
        and (watch.level != "initial" or step.is_first)
    ]
    if not wanted:
        return
    tensor = DumpTensor(step.listing, stored)
    for watch, judgement in _judgements(step, tensor, wanted):
        if judgement.verdict != "clear":
            yield _hit(step, watch, tensor, judgement)


def _judgements(
    step: _Step, tensor: DumpTensor, watches: Sequence[Watch]
) -> Iterator[tuple[Watch, Judgement]]:
    """From the row where it suffices, else from the values, which are read once."""
    needs = reduce(or_, (watch.needs for watch in watches))
    former = _former(step, tensor)
    inputs = step.origins.inputs_finite(tensor.stored.op) if needs.inputs else None
    row = tensor.stored.row is not None
    quick = tensor.evidence(needs, former, inputs, from_row=True) if row else None
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
            whole = tensor.evidence(needs, former, inputs, from_row=False)
        yield watch, watch.judge(whole)


def _former(step: _Step, tensor: DumpTensor) -> DumpTensor | None:
    if step.former is None:
        return None
    stored = tensor.stored
    found = step.former.find(stored.op, stored.io, stored.slot)
    return None if found is None else DumpTensor(step.former, found)


def _hit(step: _Step, watch: Watch, tensor: DumpTensor, judgement: Judgement) -> Hit:
    stored = tensor.stored
    node = None
    if step.graph is not None and stored.op in step.graph.numbers:
        node = step.graph.node(stored.op)
    trace = _NO_TRACE
    is_hit = judgement.verdict == "hit" and stored.io == "output"
    if is_hit and step.origins.is_bad(stored.op, stored.io, stored.slot):
        trace = step.origins.trace(stored.op)
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
        values=tuple(_value(each) for each in judgement.values),
        part=trace.part,
        origin=trace.origin,
        chain=trace.chain,
        source=node.sources[0] if node is not None and node.sources else None,
    )


def _value(value: Value) -> ParameterValue:
    return ParameterValue(
        value.name,
        None if value.preset is None else to_wire(value.preset),
        None if value.actual is None else to_wire(value.actual),
    )
