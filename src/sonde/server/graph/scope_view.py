"""Everything about one scope: its class, parameters, shapes in and out, and source lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from sonde.core.errors import UsageError
from sonde.server.graph.code import MOST_AROUND, read_code
from sonde.server.graph.folding import Flags
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.labels import scope_label
from sonde.server.graph.step_parts import part_of_scope
from sonde.wire.graphs import ScopeParameter, ScopeTensor, ScopeView
from sonde.wire.shapes import SourceLine

MOST_TENSORS: Final = 12
MOST_PARAMETERS: Final = 2000
MOST_OPS: Final = 1000
_NUMBERED: Final = re.compile(r"_\d+$")


def scope_view(index: GraphIndex, path: str, hits: Mapping[str, int]) -> ScopeView:
    """The scope at ``path``; UsageError if there is none."""
    place = index.scope(path)
    scope = index.scopes[place]
    inside = index.ancestors[scope.depth] == place
    function = index.functions.get(scope.path)
    cls = _NUMBERED.sub("", scope.label.partition("-")[2])
    first = index.nodes[scope.first_op] if scope.first_op >= 0 else None
    parameters = _parameters(index, inside)
    frames = () if first is None else first.sources
    defined, called = (None, _first(frames)) if function else _class_source(index, frames, cls)
    names = (index.nodes[number].name for number in np.flatnonzero(inside).tolist())
    return ScopeView(
        path=scope.path,
        graph=index.graph,
        label=scope_label(scope.label),
        cls=cls,
        phase="forward" if first is None else first.phase,
        part=part_of_scope(scope.path) if function is None else function.part,
        is_function=function is not None,
        ops=scope.ops,
        first_order=-1 if first is None else first.order,
        op_names=tuple(_names(index, function.nodes)) if function else (),
        parameters=tuple(parameters[:MOST_PARAMETERS]),
        elements=sum(each.elements for each in parameters),
        inputs=_crossing(index, inside, incoming=True),
        outputs=_crossing(index, inside, incoming=False),
        hits=sum(hits.get(name, 0) for name in names) if hits else 0,
        defined=defined,
        called=called,
    )


def _names(index: GraphIndex, numbers: Sequence[int]) -> Iterable[str]:
    return (index.nodes[number].name for number in numbers[:MOST_OPS])


def _parameters(index: GraphIndex, inside: Flags) -> list[ScopeParameter]:
    """The parameters and buffers that ops of the scope read, without gradients."""
    edges = index.edges
    read = edges.source[inside[edges.target]]
    numbers = np.union1d(read, np.flatnonzero(inside))
    found: list[ScopeParameter] = []
    for number in numbers.tolist():
        node = index.nodes[number]
        if node.kind == "parameter" and node.outputs and "gradient" not in node.categories:
            kind = node.outputs[0]
            is_weight = "weight" in node.categories
            found.append(ScopeParameter(node.name, kind, prod(kind.shape), is_weight))
    return found


def _crossing(index: GraphIndex, inside: Flags, *, incoming: bool) -> tuple[ScopeTensor, ...]:
    """The tensors that ops of the same phase exchange with the scope, each once; parameters and
    constants are not counted."""
    edges = index.edges
    enters = ~inside[edges.source] & inside[edges.target]
    leaves = inside[edges.source] & ~inside[edges.target]
    rows = np.flatnonzero(enters if incoming else leaves)
    found: dict[tuple[int, int], ScopeTensor] = {}
    for row in rows.tolist():
        source, target, slot = (int(each[row]) for each in (edges.source, edges.target, edges.slot))
        made, read = index.nodes[source], index.nodes[target]
        if made.kind in ("parameter", "constant") or made.phase != read.phase:
            continue
        kind = edges.kinds[int(edges.kind[row])]
        found.setdefault((source, slot), ScopeTensor(made.name, slot, kind))
        if len(found) == MOST_TENSORS:
            break
    return tuple(found.values())


def _first(frames: Sequence[SourceLine]) -> SourceLine | None:
    return frames[0] if frames else None


def _class_source(
    index: GraphIndex, frames: Sequence[SourceLine], cls: str
) -> tuple[SourceLine | None, SourceLine | None]:
    """The line that begins the class, if it is the user's own, and the line that called it. A class
    of a library has no frame in the stack, so the innermost frame is the call."""
    pattern = re.compile(rf"\s*class\s+{re.escape(cls)}\b")
    for place, frame in enumerate(frames if cls else ()):
        try:
            code = read_code(index, frame.file, frame.line, MOST_AROUND)
        except UsageError:
            continue
        above = code.lines[: max(frame.line - code.first, 0)]
        for back, text in enumerate(reversed(above)):
            if pattern.match(text):
                line = code.first + len(above) - 1 - back
                defined = SourceLine(frame.file, line, cls, text.strip())
                return defined, _first(frames[place + 1 :])
    return None, _first(frames)
