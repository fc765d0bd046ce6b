"""One level of a graph as boxes and edges: the direct content of a scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sonde.core.errors import UsageError
from sonde.server.graph.boxes import Box, grouped, single
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.step_parts import part_of_scope
from sonde.server.graph.wiring import Wiring
from sonde.wire.graphs import Level, LevelNode, StepPart

MOST_BOXES: Final = 2000
MOST_MEMBERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Marks:
    """Hits by op, the ops that produced non-finite values, and the kinds of the findings about each
    node and scope (``~scope``) of the index."""

    hits: Mapping[str, int] = field(default_factory=dict)
    origins: Collection[str] = ()
    findings: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def level(index: GraphIndex, scope: str, group: str = "", marks: Marks | None = None) -> Level:
    """The boxes directly inside ``scope``, or inside its group ``group``; UsageError if there is no
    such scope or group."""
    place = index.scope(scope)
    path = index.scopes[place].path
    boxes = grouped(index, place)
    outer: list[Box] = []
    if group:
        chosen = next((box for box in boxes if box.path == group), None)
        if chosen is None:
            raise UsageError(f"no group {group!r} in {path!r}", slug="no-such-scope")
        outer = [box for box in boxes if box is not chosen]
        boxes = [single(index, part) for part in chosen.parts]
    hidden = max(len(boxes) - MOST_BOXES, 0)
    boxes = boxes[:MOST_BOXES]
    wiring = Wiring(index, place, boxes, outer)
    outside, edges = wiring.drawn()
    marks = marks or Marks()
    hits = index.hits_by_part(marks.hits)
    origins = index.hits_by_part(dict.fromkeys(marks.origins, 1))
    is_top = place == 0 and index.is_summary
    nodes = [
        msgspec.structs.replace(
            _node(index, box, hits, origins, is_top=is_top),
            findings=tuple(
                dict.fromkeys(kind for part in box.parts for kind in marks.findings.get(part, ()))
            ),
        )
        for box in (*boxes, *outside)
    ]
    return Level(index.graph, path, group, tuple(nodes), tuple(edges), hidden)


def _node(
    index: GraphIndex, box: Box, hits: Counter[int], origins: Counter[int], *, is_top: bool
) -> LevelNode:
    """The box as it is drawn, with its counts of ops and hits. ``is_top``: in the outermost
    level."""
    spans = [index.span(part) for part in box.parts]
    head = spans[0][0]
    is_node = box.parts[0] >= 0
    ops = sum(
        index.scopes[~part].ops if part < 0 else index.nodes[part].kind == "op"
        for part in box.parts
    )
    function = index.functions.get(box.path)
    parts = box.parts if function is None else function.nodes
    members = parts[:MOST_MEMBERS] if box.stands_for > 1 or function is not None else ()
    return LevelNode(
        path=box.path,
        label=box.label,
        what=box.what,
        type=head.type if is_node else _class_of(index.scopes[~box.parts[0]].label),
        kind=head.kind if is_node else "op",
        phase=head.phase,
        ops=ops,
        stands_for=box.stands_for,
        members=tuple(single(index, part).path for part in members),
        hits=sum(hits[part] for part in box.parts),
        has_origin=any(origins[part] for part in box.parts),
        first_order=head.order,
        last_order=max(last.order for _, last in spans),
        part=_part(index, box) if is_top else "",
        is_function=function is not None,
    )


def _part(index: GraphIndex, box: Box) -> StepPart:
    """The part of the step that a box of the outermost level stands for."""
    function = index.functions.get(box.path)
    if function is not None:
        return function.part
    if box.parts[0] < 0:
        return part_of_scope(index.scopes[~box.parts[0]].path)
    return "network" if index.nodes[box.parts[0]].kind == "parameter" else "other"


def _class_of(label: str) -> str:
    """The class name in a label: ``Linear`` of ``0-Linear``."""
    return label.partition("-")[2] or label
