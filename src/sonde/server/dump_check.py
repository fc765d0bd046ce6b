"""The check of a dump without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sonde.server.dump_shelf import DumpShelf
from sonde.server.hit_book import HitBook
from sonde.server.recheck import recheck
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import WatchpointDraft
from sonde.wire.shapes import Hit


def check_dump(
    path: Path,
    drafts: Sequence[WatchpointDraft],
    progress: Callable[[int, int], None] | None = None,
    trouble: Callable[[str], None] | None = None,
) -> HitBook:
    """The hits of these watchpoints over all steps and ranks of the dump at ``path``.

    ``progress`` is told how many tensors are done and how many there are, as far as is known;
    ``trouble`` what of the dump is damaged, a line each.
    """
    shelf = DumpShelf(path)
    watchpoints = WatchpointSet()
    for draft in drafts:
        watchpoints.add(draft)
    book = HitBook(lambda hit: is_leaf(shelf, hit))

    def take(done: int, total: int, hits: Sequence[Hit]) -> bool:
        book.add(hits)
        if progress is not None:
            progress(done, total)
        return True

    recheck(shelf, watchpoints.all, take)
    shelf.keep()
    if trouble is not None:
        for problem in shelf.dump.problems:
            trouble(str(problem))
    return book


def is_leaf(shelf: DumpShelf, hit: Hit) -> bool:
    """Whether the op of a hit is an input or a parameter."""
    for index in shelf.known_graphs(hit.rank):
        number = index.numbers.get(hit.op)
        if number is not None:
            return index.nodes[number].kind != "op"
    return False
