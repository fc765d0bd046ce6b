"""Finds the nodes of a graph that no user wrote, and leads edges past them.

Three kinds of nodes are folded: ``detach`` ops by which autograd saves an output or passes on a
gradient; constants without a name; and MindSpore's nodes that only order other nodes or pack them
(``UpdateState``, ``Depend``, ``MakeTuple``, ``TupleGetItem``, ``Load``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.server.graph.edges import Edges
from sonde.watch.op_types import ORDERING
from sonde.wire.shapes import InputEdge, Node

_PACKING: Final = frozenset(("MakeTuple", "make_tuple"))
"""These hand on all of their inputs."""
_PASSING: Final = frozenset(("Depend", "Load", "TupleGetItem", "tuple_getitem"))
"""These hand on their first input; the others are an order or a number."""
_CONTROL: Final = _PACKING | _PASSING | {ORDERING}
_UNNAMED: Final = re.compile(r"(?:^|_)data-\d+$")

Rows = list[tuple[int, int]]
Flags = NDArray[np.bool_]


def folded_nodes(nodes: Sequence[Node], edges: Edges) -> Flags:
    """Whether each node is folded."""
    found = np.zeros(len(nodes), bool)
    detached: list[int] = []
    for number, node in enumerate(nodes):
        if node.kind == "constant":
            found[number] = _UNNAMED.search(node.name) is not None
        elif node.kind == "op" and node.type in _CONTROL:
            found[number] = True
        elif node.type == "detach":
            detached.append(number)
    if detached:
        read_in_forward = _read_in_forward(nodes, edges)
        for number in detached:
            node = nodes[number]
            is_written = any("detach" in source.code for source in node.sources)
            found[number] = node.phase == "backward" or not (is_written or read_in_forward[number])
    return found


def _read_in_forward(nodes: Sequence[Node], edges: Edges) -> Flags:
    is_forward = np.fromiter((node.phase == "forward" for node in nodes), bool, len(nodes))
    found = np.zeros(len(nodes), bool)
    found[edges.source[is_forward[edges.target]]] = True
    return found


def edges_past(nodes: Sequence[Node], edges: Edges, folded: Flags) -> Edges:
    """The edges between nodes that are not folded: what a folded node hands on comes from the nodes
    that it has it from."""
    from_folded, to_folded = folded[edges.source], folded[edges.target]
    sources = _sources(nodes, edges, folded, np.flatnonzero(to_folded))
    plain = ~(from_folded | to_folded)
    added: list[tuple[int, int, int, int]] = []
    for row in np.flatnonzero(from_folded & ~to_folded).tolist():
        ends = int(edges.target[row]), int(edges.kind[row])
        found = sources[int(edges.source[row])]
        added += ((source, ends[0], slot, ends[1]) for source, slot in found)
    table = np.array(added, np.int32).reshape(-1, 4).T
    columns = (edges.source, edges.target, edges.slot, edges.kind)
    joined = [
        np.concatenate((column[plain], more)) for column, more in zip(columns, table, strict=True)
    ]
    order = np.argsort(joined[1], kind="stable")
    source, target, slot, kind = (column[order] for column in joined)
    return Edges(source, target, slot, kind, edges.kinds)


def passed_input(node: Node) -> InputEdge | None:
    """The input whose tensor a folded node hands on; None if it hands on several or none."""
    is_single = node.inputs and node.type not in _PACKING and node.type != ORDERING
    return node.inputs[0] if is_single else None


def _sources(
    nodes: Sequence[Node], edges: Edges, folded: Flags, rows: NDArray[np.intp]
) -> dict[int, Rows]:
    """For each folded node the nodes and slots that it hands on; ``rows`` lead to folded nodes, in
    execution order."""
    found: dict[int, Rows] = defaultdict(list)
    is_first: set[int] = set()
    for row in rows.tolist():
        source, target = int(edges.source[row]), int(edges.target[row])
        kind = nodes[target].type
        if kind == ORDERING or (kind in _PASSING and target in is_first):
            continue
        is_first.add(target)
        if folded[source]:
            found[target] += found[source]
        else:
            found[target].append((source, int(edges.slot[row])))
    return found
