"""The check of a dump without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from sonde.dump.reading.directories import DumpProblem
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.recheck import recheck
from sonde.server.hit_store import HitStore
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import WatchpointDraft
from sonde.wire.shapes import Hit

_READ: Final = frozenset({".npy", ".pb"})


def check_dump(
    path: Path,
    drafts: Sequence[WatchpointDraft],
    progress: Callable[[int, int], None] | None = None,
    trouble: Callable[[DumpProblem], None] | None = None,
) -> HitStore:
    """The hits of these watchpoints over all steps and ranks of the dump at ``path``.

    ``progress`` is told how many tensors are done and how many there are, as far as is known;
    ``trouble`` what of the dump is damaged or foreign: tensors that had to be read and could not
    be, graphs, files that do not belong there.
    """
    shelf = IndexedDump(path)
    watchpoints = WatchpointSet()
    for draft in drafts:
        watchpoints.add(draft)
    book = HitStore(lambda hit: is_leaf(shelf, hit))

    def take(done: int, total: int, hits: Sequence[Hit]) -> bool:
        book.add(hits)
        if progress is not None:
            progress(done, total)
        return True

    recheck(shelf, watchpoints.all, take)
    shelf.keep()
    if trouble is not None:
        for problem in (*shelf.dump.problems, *_unreadable(shelf, book.in_order())):
            trouble(problem)
    return book


def is_damage(problem: DumpProblem) -> bool:
    """Whether values or a graph cannot be read: then nobody knows what is in them."""
    return problem.path.suffix in _READ and not problem.is_foreign


def _unreadable(shelf: IndexedDump, hits: Iterable[Hit]) -> list[DumpProblem]:
    """The files for which hits are undecided."""
    found: dict[Path, DumpProblem] = {}
    for hit in hits:
        if hit.verdict != "undecided" or ".npy" not in hit.why:
            continue
        for directory in shelf.steps(hit.rank):  # A former step's file may be the one.
            if str(directory.path) not in hit.why:
                continue
            stored = shelf.listing(directory).find(hit.op, hit.io, hit.slot)
            path = directory.path / (stored.file or "") if stored is not None else directory.path
            _, is_named, message = hit.why.partition(f"{path}: ")
            if is_named:
                found.setdefault(path, DumpProblem(path, message))
    return list(found.values())


def is_leaf(shelf: IndexedDump, hit: Hit) -> bool:
    """Whether the op of a hit is an input or a parameter."""
    for index in shelf.known_graphs(hit.rank):
        number = index.numbers.get(hit.op)
        if number is not None:
            return index.nodes[number].kind != "op"
    return False
