"""Lists nodes of a graph: the scope tree, searches, lines of code, one op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from sonde.core.errors import SondeError, UsageError
from sonde.core.graph import Phase, but_gradients, phase_of
from sonde.core.operators.patterns import OpPattern, ScopePart, parts_of
from sonde.core.text.terminal_text import quoted
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.labels import scope_label
from sonde.wire.convert import copy_fields, shown_line, source_line
from sonde.wire.graphs import (
    FoundScope,
    ListedNode,
    NodePage,
    OpView,
    ScopeList,
    SourceList,
    SourceUse,
    TreeEntry,
    TreePage,
)
from sonde.wire.queries import NodesQuery
from sonde.wire.shapes import GraphDetail, Node

MOST_ENTRIES: Final = 1000
MOST_LINES: Final = 2000


class AmbiguousNameError(UsageError):
    """Several ops or scopes match a name."""


@dataclass(frozen=True, slots=True)
class PageWindow:
    """One page of a list: ``limit`` entries from ``offset`` on."""

    offset: int = 0
    limit: int = 200

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= MOST_ENTRIES:
            raise UsageError(
                f"page size must be at most {MOST_ENTRIES} (got {self.limit})", slug="bad-request"
            )
        if self.offset < 0:
            raise UsageError(
                f"page offset must be 0 or more (got {self.offset})", slug="bad-request"
            )

    @property
    def slice(self) -> slice:
        return slice(self.offset, self.offset + self.limit)


def tree(index: GraphIndex, scope: str, window: PageWindow, hits: Mapping[str, int]) -> TreePage:
    """The children of a scope, in execution order."""
    place = index.scope(scope)
    children = index.scopes[place].children
    counts = index.hits_by_part(hits)
    entries: list[TreeEntry] = []
    for child in children[window.slice]:
        if child >= 0:
            node = index.nodes[child]
            label = index.shown_label(child)
            entries.append(
                TreeEntry(node.name, label, False, node.type, node.kind, 1, counts[child])
            )
        else:
            inner = index.scopes[~child]
            type_ = inner.label.partition("-")[2]
            shown = scope_label(inner.label)
            entries.append(
                TreeEntry(inner.path, shown, True, type_, "op", inner.ops, counts[child])
            )
    return TreePage(index.scopes[place].path, len(children), window.offset, tuple(entries))


def search(index: GraphIndex, query: NodesQuery, hits: Mapping[str, int]) -> NodePage:
    """The nodes that match, in execution order."""
    window = PageWindow(query.offset, query.limit)
    found = _matches(index, query, hits)
    nodes = tuple(_listed(index, number, hits) for number in found[window.slice])
    return NodePage(len(found), window.offset, nodes)


def _matches(index: GraphIndex, query: NodesQuery, hits: Mapping[str, int]) -> list[int]:
    numbers: Iterable[int] = range(len(index))
    if query.file:
        numbers = _on_line(index, query.file, query.line)
    if query.hits:
        numbers = [number for number in numbers if index.nodes[number].name in hits]
    for word in _words(query.query):
        numbers = _named(index, numbers, word)
    if query.category is not None and query.category != "tensor":
        category = query.category
        numbers = [number for number in numbers if category in index.nodes[number].categories]
    if query.phase is not None:
        numbers = [number for number in numbers if _phase(index.nodes[number]) == query.phase]
    return list(numbers)


def _phase(node: Node) -> Phase:
    """The phase that a node belongs to: what an optimizer keeps between steps is a parameter, which
    graphs list as "forward"."""
    is_state = node.kind == "parameter" and phase_of(f"{node.scope}/") == "optimizer"
    return "optimizer" if is_state else node.phase


def _words(text: str) -> list[str]:
    """The words that a node must all match; a regular expression may contain spaces."""
    return [text] if text.strip().startswith("name-regex(") else text.split()


def _named(index: GraphIndex, numbers: Iterable[int], word: str) -> list[int]:
    """The nodes whose name contains ``word``, whatever its case, or that it selects as a pattern,
    if it is one yet: the user is typing."""
    names, wanted = index.folded, word.lower()
    try:
        pattern = OpPattern.parse(word)
    except SondeError:
        return [number for number in numbers if wanted in names[number]]
    if pattern.excludes:
        return [number for number in numbers if not _matches_node(pattern, index, number)]
    return [
        number
        for number in numbers
        if wanted in names[number] or _matches_node(pattern, index, number)
    ]


def _matches_node(pattern: OpPattern, index: GraphIndex, number: int) -> bool:
    node = index.nodes[number]
    return pattern.matches(node.name, node.type, node.scope, is_leaf=node.kind != "op")


def _on_line(index: GraphIndex, file: str, line: int | None) -> list[int]:
    if line is not None:
        return list(index.lines.get((file, line), ()))
    found = (numbers for (name, _), numbers in index.lines.items() if name == file)
    return sorted({number for numbers in found for number in numbers})


def _listed(index: GraphIndex, number: int, hits: Mapping[str, int]) -> ListedNode:
    node = index.nodes[number]
    shown = shown_line(node.sources)
    return copy_fields(
        node,
        ListedNode,
        scope=index.scopes[int(index.scope_of[number])].path,
        hits=hits.get(node.name, 0),
        source=None if shown is None else source_line(shown),
    )


def sources(index: GraphIndex, text: str) -> SourceList:
    """The lines of code whose file or text contains ``text``, and how many nodes they have."""
    wanted = text.lower()
    found = [
        SourceUse(file, line, index.codes[(file, line)], len(numbers))
        for (file, line), numbers in index.lines.items()
        if wanted in f"{file}:{line}".lower() or wanted in index.codes[(file, line)].lower()
    ]
    return SourceList(len(found), tuple(found[:MOST_LINES]))


def op_view(index: GraphIndex, name: str, hits: int, view: GraphDetail = "everything") -> OpView:
    """Everything about the node called ``name``, which has ``hits``, but its tensors. Its
    neighbours are those that ``view`` shows; if that does not show the node, all."""
    number = index.number(name)
    summary = index.summary
    is_folded = bool(summary.hidden[number])
    shown = index if is_folded else index.seen_as(view)
    node = index.nodes[number]
    if shown is summary:
        node = msgspec.structs.replace(node, inputs=tuple(map(summary.unfolded, node.inputs)))
    return OpView(
        node,
        index.graph,
        shown.consumers(name),
        hits,
        summary.scopes[int(summary.scope_of[number])].path,
        is_folded,
    )


def scopes(index: GraphIndex, query: str, limit: int) -> ScopeList:
    """The scopes whose path contains all words of ``query``, whatever their case; those whose last
    part has one of the words first, short paths before long ones."""
    words = query.lower().split()
    found = [
        scope
        for scope in index.scopes[1:]
        if scope.ops > 0 and all(word in scope.path.lower() for word in words)
    ]
    found.sort(
        key=lambda scope: (not any(w in scope.label.lower() for w in words), len(scope.path))
    )
    shown = (
        FoundScope(scope.path, scope_label(scope.label), scope.ops)
        for scope in found[: min(max(limit, 0), MOST_ENTRIES)]
    )
    return ScopeList(len(found), tuple(shown))


def find_op(index: GraphIndex, text: str) -> str:
    """The full name of the op that ``text`` names: by its name, the end of its name, or a unique
    part of it, not counting gradients. UsageError if no op matches, AmbiguousNameError if several
    do."""
    if text in index.numbers:
        return text
    wanted = text.lower()
    found = _ending(index, wanted) or [
        index.nodes[n].name for n in np.flatnonzero([wanted in f for f in index.folded])
    ]
    if not found:
        found = [index.nodes[number].name for number in _named(index, range(len(index)), text)]
    own = but_gradients(found)
    if len(own) == 1:
        return own[0]
    raise _no_match(index, "op", found, text, advice="give the full name")


def find_target(index: GraphIndex, text: str) -> str:
    """The op or scope to run to: an op as in ``find_op``, or a scope, by its path, the end of its
    path, or the path of its module (``layers.0``); the path of a scope ends with ``/``. Raises as
    ``find_op``."""
    wanted = text.strip("/").lower()
    is_scope = text.endswith("/")
    if not is_scope and (text in index.numbers or _ending(index, wanted)):
        return find_op(index, text)
    paths = (
        [scope.path for scope in index.scopes if scope.path == f"{text.strip('/')}/"]
        or [path for path in _scope_paths(index) if f"/{path}".lower().endswith(f"/{wanted}/")]
        or [path for path in _scope_paths(index) if _is_module(path, wanted)]
    )
    own = but_gradients(paths) or but_gradients(
        path for path in _scope_paths(index) if _class_of(path) == text
    )
    if len(own) == 1:
        return own[0]
    if not is_scope and not paths:
        return find_op(index, text)
    raise _no_match(index, "scope", paths, text, advice="give the full path")


def _scope_paths(index: GraphIndex) -> Iterator[str]:
    return (scope.path for scope in index.scopes)


def _is_module(path: str, wanted: str) -> bool:
    """Whether a scope is that of the module with the path ``wanted``, such as ``layers.0.attn``, in
    small letters."""
    names = [part.name.lower() for part in _modules_of(path)]
    modules = wanted.split(".")
    return names[-len(modules) :] == modules


def _class_of(path: str) -> str:
    modules = _modules_of(path)
    return modules[-1].cls if modules else ""


def _modules_of(path: str) -> Sequence[ScopePart]:
    """The parts of a scope that are modules; none if the last part is not."""
    parts = parts_of(path.rstrip("/"))
    return parts if parts and path.rstrip("/").endswith(parts[-1].label) else ()


def _no_match(
    index: GraphIndex, kind: str, found: list[str], text: str, *, advice: str
) -> UsageError:
    slug = f"no-such-{kind}"
    if not found:
        hint = index.suggestion(text) or f"; {advice}"
        return UsageError(f"no {kind} matches {quoted(text)}{hint}", slug=slug)
    some = ", ".join(found[:5])
    what = f"{len(found)} {kind}s match {quoted(text)}"
    return AmbiguousNameError(f"{what}: {some}; {advice}", slug=slug)


def _ending(index: GraphIndex, wanted: str) -> list[str]:
    return [name for name in index.numbers if name.lower().endswith(f"/{wanted}")]
