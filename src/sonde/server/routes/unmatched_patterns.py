"""Finds the patterns of watchpoints that match nothing in the known graphs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import structs

from sonde.core.errors import SondeError, UsageError
from sonde.core.operators.patterns import OpPattern
from sonde.core.operators.suggestions import suggestion
from sonde.core.text.terminal_text import quoted
from sonde.debugger.initial_watchpoints import recommended_draft
from sonde.server.graph.index import GraphIndex
from sonde.server.run import Run
from sonde.watch.conditions import CATALOGUE, RECOMMENDED
from sonde.wire import api
from sonde.wire.shapes import WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft, WatchpointList, WatchpointWarning

MOST_GRAPHS: Final = 50
"""Graphs of a rank that are searched, the newest first."""
_SHOWN: Final = 3
RECOMMENDED_OPS: Final = frozenset(recommended_draft(each).ops for each in RECOMMENDED)
"""The patterns of recommended watchpoints, which are for any network: some match nothing."""


async def warning(run: Run, draft: WatchpointDraft, *, strict: bool = False) -> str:
    """A warning about patterns of ``draft`` that match nothing; empty if each matches.

    ``strict``: UsageError if graphs are known and a pattern finds nothing in them.
    """
    search = PatternSearch(draft)
    await search.look_at_graphs(run)
    if not search.useless:
        return ""
    if not search.is_known:
        return (
            "not all ops are known before the first step has ended, so it is not known yet whether "
            f"{_words(search.useless)} matches"
        )
    if strict:
        hint = "" if search.has_hint else "; 'sonde ctl graph' shows names"
        raise UsageError(f"{search.message()}{hint}", slug="no-such-op")
    return search.message()


async def run_view(run: Run) -> api.RunView:
    """The run, with the warnings about its watchpoints."""
    view = run.view()
    return structs.replace(view, warnings=await _warnings(run))


async def watchpoint_list(run: Run) -> WatchpointList:
    """The watchpoints of a run, with the warnings about them."""
    watchpoints = run.watchpoints.all
    return WatchpointList(watchpoints, await _warnings(run))


class PatternSearch:
    """The search of the patterns of a watchpoint in the graphs of a run.

    ``unmatched``: patterns that matched no name; ``useless``: those, and patterns that matched no
    node of the categories that the conditions are about. ``is_known``: a whole graph was searched.
    """

    def __init__(self, spec: WatchpointDraft | WatchpointSpec) -> None:
        self._targets = {each.id: _target(each.id) for each in spec.conditions}
        self._ranks = spec.ranks
        self.unmatched = {text: OpPattern.parse(text) for text in spec.ops}
        self.useless = dict(self.unmatched)
        self.is_known = False
        self._searched: set[tuple[int, int, int]] = set()
        self._hints: dict[str, str] = {}
        self._hint_nodes = 0

    async def look_at_graphs(self, run: Run) -> None:
        """Search the graphs that are new since the last call."""
        largest: GraphIndex | None = None
        async for index in self._new_graphs(run):
            # Before the first step has ended not all ops are known; a last step may be cut off.
            if index.whole and len(index) > self._hint_nodes:
                largest, self._hint_nodes = index, len(index)
            await asyncio.to_thread(self._look, index)  # Many patterns times many nodes.
        if largest is not None and self.unmatched:
            self._hints = await asyncio.to_thread(self._hints_in, largest)

    def look_at(self, index: GraphIndex) -> None:
        """Search one graph, and find names in it that may have been meant."""
        self._look(index)
        self._hints = self._hints or self._hints_in(index)

    async def _new_graphs(self, run: Run) -> AsyncIterator[GraphIndex]:
        for rank in run.view().ranks:
            for graph in reversed(rank.graphs[-MOST_GRAPHS:]):
                key = (rank.rank, graph.id, graph.nodes + graph.whole)
                if not self.useless or (self._ranks and rank.rank not in self._ranks):
                    break
                if key in self._searched:
                    continue
                self._searched.add(key)
                try:
                    yield await run.graph(rank.rank, graph.id)
                except SondeError:  # The graph of a dump that cannot be read.
                    continue

    def _look(self, index: GraphIndex) -> None:
        self.is_known |= index.whole
        targets = set(self._targets.values())
        for text, pattern in list(self.useless.items()):
            for node in index.nodes:
                is_leaf = node.kind != "op"
                if not pattern.matches(node.name, node.type, node.scope, is_leaf=is_leaf):
                    continue
                self.unmatched.pop(text, None)
                if pattern.excludes or not targets.isdisjoint(node.categories):
                    del self.useless[text]
                    break

    def _hints_in(self, index: GraphIndex) -> dict[str, str]:
        """What the user may have meant by the first patterns that matched nothing."""
        ops = index.named_ops()
        return {
            text: suggestion(pattern, ops)
            for text, pattern in list(self.unmatched.items())[:_SHOWN]
        }

    @property
    def has_hint(self) -> bool:
        return any(self._hints.values())

    def message(self) -> str:
        """What matches nothing, with the nearest names."""
        if self.unmatched:
            words = _words(self.unmatched, self._hints)
            return f"no op, parameter or gradient seen so far matches {words}"
        wanted = ", ".join(f"{id} applies only to {kind}s" for id, kind in self._targets.items())
        return f"{_words(self.useless)} matches, but {wanted}"


@dataclass(slots=True)
class _Searched:
    """The searches of a run's watchpoints, by their numbers, and what each was made for."""

    searches: dict[int, tuple[WatchpointSpec, PatternSearch]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_SEARCHED: Final[WeakKeyDictionary[Run, _Searched]] = WeakKeyDictionary()
"""Each request for a run needs its warnings: only new graphs are searched."""


async def _warnings(run: Run) -> tuple[WatchpointWarning, ...]:
    """The watchpoints with patterns that match nothing, once a whole graph is known."""
    specs = [spec for spec in run.watchpoints if spec.ops and spec.ops not in RECOMMENDED_OPS]
    if not specs:
        return ()
    known = _SEARCHED.setdefault(run, _Searched())
    async with known.lock:
        searches = {}
        for spec in specs:
            made_for, search = known.searches.get(spec.id, (None, None))
            if search is None or made_for != spec:
                try:
                    search = PatternSearch(spec)
                except SondeError:  # A rank may bring watchpoints that this server would refuse.
                    continue
            searches[spec.id] = (spec, search)
            await search.look_at_graphs(run)
        known.searches = searches
    return tuple(
        WatchpointWarning(number, search.message())
        for number, (_, search) in searches.items()
        if search.is_known and search.useless
    )


def _target(condition: str) -> str:
    kind = CATALOGUE.get(condition)
    return "tensor" if kind is None else kind.target


def _words(patterns: Iterable[str], hints: dict[str, str] | None = None) -> str:
    """The first patterns; each with what may have been meant by it."""
    texts = list(patterns)
    if len(texts) == 1:
        return quoted(texts[0]) + (hints or {}).get(texts[0], "")
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(_with_hint(text, hints or {}) for text in texts[:_SHOWN]) + more


def _with_hint(text: str, hints: dict[str, str]) -> str:
    hint = hints.get(text, "").removeprefix("; ")
    return f"{quoted(text)} ({hint})" if hint else quoted(text)
