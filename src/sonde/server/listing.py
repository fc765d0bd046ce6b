"""Lists of a graph's nodes: the scope tree, searches, lines of code, everything about one op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sonde.core.errors import UsageError
from sonde.core.graph import but_gradients
from sonde.server.graph_index import GraphIndex
from sonde.wire.api import (
    ListedNode,
    NodePage,
    OpView,
    SourceList,
    SourceUse,
    TreeEntry,
    TreePage,
)
from sonde.wire.shapes import Category, Hit, Phase

MOST_ENTRIES: Final = 1000
MOST_LINES: Final = 2000
MOST_OP_HITS: Final = 200


@dataclass(frozen=True, slots=True)
class Query:
    """Which nodes are wanted; what is None or empty does not matter. ``text``: words that are all
    in the name, whatever their case. ``line`` needs ``file``."""

    text: str = ""
    category: Category | None = None
    phase: Phase | None = None
    file: str = ""
    line: int | None = None
    only_hits: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a list."""

    offset: int = 0
    limit: int = 200

    def __post_init__(self) -> None:
        if self.offset < 0 or not 0 <= self.limit <= MOST_ENTRIES:
            raise UsageError(
                f"a page of {self.limit} entries from {self.offset} on is none; at most "
                f"{MOST_ENTRIES} can be had at once",
                slug="bad-request",
            )

    @property
    def slice(self) -> slice:
        return slice(self.offset, self.offset + self.limit)


def tree(index: GraphIndex, scope: str, window: Window, hits: Mapping[str, int]) -> TreePage:
    """The children of a scope, in execution order."""
    place = index.scope(scope)
    children = index.scopes[place].children
    counts = _scope_hits(index, hits)
    entries: list[TreeEntry] = []
    for child in children[window.slice]:
        if child >= 0:
            node = index.nodes[child]
            label = index.label(child)
            count = hits.get(node.name, 0)
            entries.append(TreeEntry(node.name, label, False, node.type, node.kind, 1, count))
        else:
            inner = index.scopes[~child]
            type_ = inner.label.partition("-")[2]
            count = counts.get(~child, 0)
            entries.append(TreeEntry(inner.path, inner.label, True, type_, "op", inner.ops, count))
    return TreePage(index.scopes[place].path, len(children), window.offset, tuple(entries))


def _scope_hits(index: GraphIndex, hits: Mapping[str, int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for name, count in hits.items():
        number = index.numbers.get(name)
        if number is not None:
            for scope in index.ancestors[:, number].tolist():
                counts[scope] = counts.get(scope, 0) + count
    return counts


def search(index: GraphIndex, query: Query, window: Window, hits: Mapping[str, int]) -> NodePage:
    """The nodes that match, in execution order."""
    found = _matches(index, query, hits)
    nodes = tuple(_listed(index, number, hits) for number in found[window.slice])
    return NodePage(len(found), window.offset, nodes)


def _matches(index: GraphIndex, query: Query, hits: Mapping[str, int]) -> list[int]:
    numbers: Iterable[int] = range(len(index))
    if query.file:
        numbers = _on_line(index, query.file, query.line)
    if query.only_hits:
        numbers = [number for number in numbers if index.nodes[number].name in hits]
    names = index.folded
    for word in query.text.lower().split():
        numbers = [number for number in numbers if word in names[number]]
    if query.category is not None and query.category != "tensor":
        category = query.category
        numbers = [number for number in numbers if category in index.nodes[number].categories]
    if query.phase is not None:
        numbers = [number for number in numbers if index.nodes[number].phase == query.phase]
    return list(numbers)


def _on_line(index: GraphIndex, file: str, line: int | None) -> list[int]:
    if line is not None:
        return list(index.lines.get((file, line), ()))
    found = (numbers for (name, _), numbers in index.lines.items() if name == file)
    return sorted({number for numbers in found for number in numbers})


def _listed(index: GraphIndex, number: int, hits: Mapping[str, int]) -> ListedNode:
    node = index.nodes[number]
    return ListedNode(
        node.name,
        node.type,
        index.scopes[int(index.scope_of[number])].path,
        node.phase,
        node.kind,
        node.order,
        node.categories,
        hits.get(node.name, 0),
        node.sources[0] if node.sources else None,
    )


def sources(index: GraphIndex, text: str) -> SourceList:
    """The lines of code whose file or text has ``text`` in it, and how many nodes they made."""
    wanted = text.lower()
    found = [
        SourceUse(file, line, index.codes[(file, line)], len(numbers))
        for (file, line), numbers in index.lines.items()
        if wanted in f"{file}:{line}".lower() or wanted in index.codes[(file, line)].lower()
    ]
    return SourceList(len(found), tuple(found[:MOST_LINES]))


def op_view(index: GraphIndex, name: str, hits: Iterable[Hit]) -> OpView:
    """Everything about the node called ``name`` but its tensors."""
    own = [hit for hit in hits if hit.op == name]
    node = index.node(name)
    return OpView(node, index.graph, index.consumers(name), tuple(own[-MOST_OP_HITS:]))


def find_op(index: GraphIndex, text: str) -> str:
    """The full name of the op that ``text`` means: its name, the end of it, or a part that only
    one has, its gradient left aside; UsageError if none or several."""
    if text in index.numbers:
        return text
    wanted = text.lower()
    found = _ending(index, wanted) or [
        index.nodes[n].name for n in np.flatnonzero([wanted in f for f in index.folded])
    ]
    own = but_gradients(found)
    if len(own) == 1:
        return own[0]
    some = ", ".join(found[:5])
    what = f"{len(found)} ops match {text!r}: {some}" if found else f"no op matches {text!r}"
    raise UsageError(f"{what}; give the full name", slug="no-such-op")


def find_target(index: GraphIndex, text: str) -> str:
    """Where to run to: an op as in ``find_op``, or a scope, by its path or the end of it; the path
    of a scope ends with ``/``. UsageError if it is none, or could be several."""
    wanted = text.strip("/").lower()
    is_scope = text.endswith("/")
    if not is_scope and (text in index.numbers or _ending(index, wanted)):
        return find_op(index, text)
    paths = [scope.path for scope in index.scopes if scope.path == f"{text.strip('/')}/"] or [
        scope.path for scope in index.scopes if f"/{scope.path}".lower().endswith(f"/{wanted}/")
    ]
    own = but_gradients(paths)
    if len(own) == 1:
        return own[0]
    if not is_scope and not paths:
        return find_op(index, text)
    some = ", ".join(paths[:5])
    what = f"{len(paths)} scopes match {text!r}: {some}" if paths else f"no scope matches {text!r}"
    raise UsageError(f"{what}; give the full path", slug="no-such-scope")


def _ending(index: GraphIndex, wanted: str) -> list[str]:
    return [name for name in index.numbers if name.lower().endswith(f"/{wanted}")]
