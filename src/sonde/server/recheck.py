"""Watchpoints asked of a dump: all its steps and ranks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import or_
from pathlib import Path
from typing import Final

import msgspec

from sonde.conditions import Evidence, Judgement, Value
from sonde.debugger.hits import HitBook
from sonde.debugger.watches import Watch, make_watches
from sonde.dump.tree import StepDir
from sonde.server.dump_origin import StepOrigins, Trace
from sonde.server.dump_shelf import DumpShelf, Listing, StoredTensor
from sonde.server.dump_values import DumpTensor
from sonde.server.graph_index import GraphIndex
from sonde.server.innocence import without_blame
from sonde.server.row_statistics import MissingStatisticError
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import Category, Hit, ParameterValue, WatchpointSpec

Progress = Callable[[int, int, Sequence[Hit]], bool]
"""Tensors done, tensors in all (as far as known), new hits; False ends the check."""

Origin = tuple[int, str]
"""The step and the op in which NaN or Inf first came up."""

_TENSOR: tuple[Category, ...] = ("tensor",)
_BETWEEN = 256
"""Tensors between two reports."""
_ALONE_SECONDS: Final = 1.5
"""What takes longer is worth processes, which need a while to begin."""
_MANY_TENSORS: Final = 30_000
_RUBBISH: Final = 200_000
_SHELVES: Final[dict[Path, DumpShelf]] = {}
"""In a process that judges steps for another: the dump it reads."""
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


def recheck(shelf: DumpShelf, specs: Sequence[WatchpointSpec], progress: Progress) -> None:
    """Judge all tensors of all ranks, step by step, in execution order.

    What takes long is shared out among processes, one a core; what they find is put together in
    order.
    """
    directories = [each for rank in shelf.dump.ranks for each in shelf.steps(rank)]
    named = {spec.id: frozenset(spec.ops) for spec in specs}
    books = {rank: HitBook() for rank in shelf.dump.ranks}
    earlier: dict[int, Origin] = {}
    done = 0
    with closing(_steps(shelf, specs, directories)) as steps:
        for number, (directory, count, found) in enumerate(steps):
            rank = directory.rank
            done += count
            if found is None:  # A part of a step.
                if not progress(done, done, ()):
                    return
                continue
            graph = _graph(shelf, directory) if found else None
            since = earlier.get(rank)
            hits = [_inherited(hit, graph, since) for hit in found]
            for hit in without_blame(hits, graph, named):
                books[rank].add(hit)
                if hit.part == "producer" and hit.verdict == "hit":
                    earlier.setdefault(rank, (hit.step, hit.op))
            books[rank].end_step()
            left = max(len(directories) - number - 1, 0) * done // (number + 1)
            if not progress(done, done + left, books[rank].take()):
                return


Found = tuple[StepDir, int, list[Hit] | None]
"""A step, how many of its tensors were judged since, and its hits; None: there is more of it."""


def _steps(
    shelf: DumpShelf, specs: Sequence[WatchpointSpec], directories: Sequence[StepDir]
) -> Generator[Found, None, None]:
    """Each step in order: here at first, and in several processes if it takes long."""
    start = time.monotonic()
    for number, directory in enumerate(directories):
        is_long = time.monotonic() - start > _ALONE_SECONDS and number + 1 < len(directories)
        if is_long or len(shelf.listing(directory).tensors) >= _MANY_TENSORS:
            shelf.keep()  # So that the others need not list the same again.
            yield from _shared_out(shelf.dump.path, specs, directories, number)
            return
        found: list[Hit] = []
        count = told = 0
        former = _former_of(directories, number)
        for count, hits in enumerate(judge_step(shelf, specs, directory, former), 1):
            found.extend(hits)
            if count % _BETWEEN == 0:
                yield directory, count - told, None
                told = count
        yield directory, count - told, found


def _shared_out(
    path: Path, specs: Sequence[WatchpointSpec], directories: Sequence[StepDir], first: int
) -> Iterator[Found]:
    """The steps from ``first`` on; where there are fewer than cores, in parts."""
    cores = os.cpu_count() or 1
    parts = -(-cores // (len(directories) - first))
    work = ((number, part) for number in range(first, len(directories)) for part in range(parts))
    jobs: deque[tuple[int, int, Future[tuple[int, list[Hit]]]]] = deque()
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(cores, spawn, initializer=_end_with_parent)
    try:
        found: list[Hit] = []
        while True:
            for number, part in islice(work, 2 * cores - len(jobs)):
                where = (directories[number], _former_of(directories, number))
                job = pool.submit(judge_apart, path, specs, *where, (part, parts))
                jobs.append((number, part, job))
            if not jobs:
                return
            number, part, job = jobs.popleft()
            count, hits = job.result()
            found.extend(hits)
            is_whole = part + 1 == parts
            yield directories[number], count, found if is_whole else None
            if is_whole:
                found = []
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """A parent that is killed takes this process along, which would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def judge_apart(
    path: Path,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    former: StepDir | None,
    part: tuple[int, int],
) -> tuple[int, list[Hit]]:
    """A part of a step, in a process of its own: how many tensors, and the hits."""
    shelf = _SHELVES.get(path)
    if shelf is None:
        gc.set_threshold(_RUBBISH)
        shelf = _SHELVES[path] = DumpShelf(path)
    found = list(judge_step(shelf, specs, directory, former, part))
    return len(found), [hit for hits in found for hit in hits]


def _former_of(directories: Sequence[StepDir], number: int) -> StepDir | None:
    """The step of the same net and rank that was dumped before."""
    this = directories[number]
    for each in reversed(directories[:number]):
        if (each.rank, each.net) == (this.rank, this.net):
            return each
    return None


def judge_step(
    shelf: DumpShelf,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    former: StepDir | None,
    part: tuple[int, int] = (0, 1),
) -> Iterator[list[Hit]]:
    """The hits of each tensor of a step, or of one of its parts, as the step alone tells them."""
    watches = make_watches(specs, directory.rank, ())
    before = None if former is None else shelf.listing(former)
    step = _step(shelf, shelf.listing(directory), before)
    tensors = step.tensors
    number, parts = part
    size = -(-len(tensors) // parts)
    for tensor in tensors[number * size : (number + 1) * size]:
        yield list(_judge(step, watches, tensor))


def _graph(shelf: DumpShelf, directory: StepDir) -> GraphIndex | None:
    return None if directory.graph_id is None else shelf.graph(directory.rank, directory.graph_id)


def _step(shelf: DumpShelf, listing: Listing, former: Listing | None) -> _Step:
    directory: StepDir = listing.step
    graph = _graph(shelf, directory)
    is_first = directory.step == 0 and (former is None or former.step.step == 0)
    return _Step(listing, graph, StepOrigins(listing, graph), former, is_first)


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


def _inherited(hit: Hit, graph: GraphIndex | None, earlier: Origin | None) -> Hit:
    """What begins with a parameter that an earlier step spoiled comes from that step."""
    if earlier is None or hit.origin is None or graph is None or hit.part == "other":
        return hit
    when, op = earlier
    if when == hit.step or graph.node(hit.origin).kind != "parameter":
        return hit
    return msgspec.structs.replace(
        hit,
        part="carrier",
        origin=op,
        chain=(op, *hit.chain),
        why=f"{hit.why}; since step {when}",
    )


def _value(value: Value) -> ParameterValue:
    return ParameterValue(
        value.name,
        None if value.preset is None else to_wire(value.preset),
        None if value.actual is None else to_wire(value.actual),
    )
