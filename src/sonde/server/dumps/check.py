"""The check of a dump without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sonde.dump.reading.directories import DumpProblem
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.recheck import CheckProgress, recheck
from sonde.server.hit_store import HitStore
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.shapes import Hit
from sonde.wire.watchpoints import WatchpointDraft
from sonde.workers.run import WorkerOptions

_READ: Final = frozenset({".npy", ".pb", ".pt"})


def check_dump(
    path: Path,
    drafts: Sequence[WatchpointDraft],
    progress: Callable[[int, int], None] | None = None,
    report_problem: Callable[[DumpProblem], None] | None = None,
    workers: WorkerOptions | None = None,
) -> HitStore:
    """The hits of these watchpoints over all steps and ranks of the dump at ``path``.

    ``progress`` is called with the number of tensors done and, as far as known, in total;
    ``report_problem`` for each file that is damaged or does not belong to a dump. ``workers``:
    where the steps are evaluated.
    """
    dump = IndexedDump(path)
    watchpoints = WatchpointSet()
    for draft in drafts:
        watchpoints.add(draft)
    hits = HitStore(lambda hit: is_leaf(dump, hit))
    unreadable: dict[Path, DumpProblem] = {}

    def take(found: CheckProgress) -> bool:
        hits.add(found.hits)
        for problem in found.problems:
            unreadable.setdefault(problem.path, problem)
        if progress is not None:
            progress(found.done, found.total)
        return True

    recheck(dump, watchpoints.all, take, workers or WorkerOptions())
    dump.keep()
    if report_problem is not None:
        for problem in (*dump.dump.problems, *unreadable.values()):
            report_problem(problem)
    return hits


def is_damage(problem: DumpProblem) -> bool:
    """Whether values or a graph cannot be read, so that their contents are unknown."""
    return problem.path.suffix in _READ and not problem.is_foreign


def is_leaf(dump: IndexedDump, hit: Hit) -> bool:
    """Whether the op of a hit is an input or a parameter."""
    for index in dump.known_graphs(hit.rank):
        number = index.numbers.get(hit.op)
        if number is not None:
            return index.nodes[number].kind != "op"
    return False
