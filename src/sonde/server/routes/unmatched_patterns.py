"""Finds the patterns of a watchpoint that match nothing in the known graphs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from sonde.core.errors import UsageError
from sonde.core.operators.patterns import NamedOp, OpPattern
from sonde.core.operators.suggestions import suggestion
from sonde.server.graph.index import GraphIndex
from sonde.server.run import Run
from sonde.watch.conditions import CATALOGUE
from sonde.wire.api import WatchpointDraft

MOST_GRAPHS: Final = 50
"""Graphs of a rank that are searched, the newest first."""
_SHOWN: Final = 3


async def warning(run: Run, draft: WatchpointDraft, *, strict: bool = False) -> str:
    """A warning about patterns of ``draft`` that match nothing; empty if each matches.

    ``strict``: UsageError if graphs are known and a pattern finds nothing in them.
    """
    targets = {each.id: _target(each.id) for each in draft.conditions}
    search = _Search(draft.ops, set(targets.values()))
    is_known = False
    if draft.ops:
        async for index in _graphs(run, draft.ranks):
            is_known |= index.whole  # Before the first step has ended not all ops are known.
            await asyncio.to_thread(search.look, index)  # Many patterns times many nodes.
            if not search.useless:
                break
    if not search.useless:
        return ""
    if not is_known:
        return (
            "not all ops are known before the first step has ended, so it is not known yet whether "
            f"{_words(search.useless)} matches"
        )
    if search.unmatched:
        message = f"no op, parameter or gradient seen so far matches {_words(search.unmatched)}"
    else:
        wanted = ", ".join(f"{id} applies only to {kind}s" for id, kind in targets.items())
        message = f"{_words(search.useless)} matches, but {wanted}"
    if strict:
        hint = search.hint() or "; 'sonde ctl graph' shows names"
        raise UsageError(f"{message}{hint}", slug="no-such-op")
    return message


def _target(condition: str) -> str:
    kind = CATALOGUE.get(condition)
    return "tensor" if kind is None else kind.target


class _Search:
    """The search of patterns in graphs. ``unmatched``: patterns that matched no name; ``useless``:
    those, and patterns that matched no node of the categories that the conditions are about."""

    def __init__(self, patterns: Iterable[str], targets: set[str]) -> None:
        self._targets = targets
        self.unmatched = {text: OpPattern.parse(text) for text in patterns}
        self.useless = dict(self.unmatched)
        self._newest: GraphIndex | None = None

    def hint(self) -> str:
        """What the user may have meant by the first pattern that matched nothing."""
        pattern = next(iter(self.unmatched.values()), None)
        if pattern is None or self._newest is None:
            return ""
        nodes = self._newest.nodes
        return suggestion(
            pattern,
            (NamedOp(each.name, each.type, each.scope, each.kind != "op") for each in nodes),
        )

    def look(self, index: GraphIndex) -> None:
        self._newest = self._newest or index
        for text, pattern in list(self.useless.items()):
            for node in index.nodes:
                is_leaf = node.kind != "op"
                if not pattern.matches(node.name, node.type, node.scope, is_leaf=is_leaf):
                    continue
                self.unmatched.pop(text, None)
                if pattern.excludes or not self._targets.isdisjoint(node.categories):
                    del self.useless[text]
                    break


async def _graphs(run: Run, ranks: Sequence[int]) -> AsyncIterator[GraphIndex]:
    for rank in run.view().ranks:
        if not ranks or rank.rank in ranks:
            for graph in reversed(rank.graphs[-MOST_GRAPHS:]):
                yield await run.graph(rank.rank, graph.id)


def _words(patterns: Iterable[str]) -> str:
    texts = [repr(text) for text in patterns]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
