"""The edges of a graph as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sonde.server.graph.scopes import Ints
from sonde.wire.shapes import Node, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Data from slot ``slot`` of node ``source`` to node ``target``; ``kind`` is its type."""

    source: Ints
    target: Ints
    slot: Ints
    kind: Ints
    kinds: tuple[TensorType, ...]


def edges_of(nodes: Sequence[Node], numbers: Mapping[str, int]) -> Edges:
    """The edges between ``nodes``, whose places are ``numbers``, in the order of their targets."""
    rows: list[tuple[int, int, int, int]] = []
    kinds: dict[TensorType, int] = {}
    for target, node in enumerate(nodes):
        for edge in node.inputs:
            source = -1 if edge.producer is None else numbers.get(edge.producer, -1)
            if source >= 0:
                kind = kinds.setdefault(edge.type, len(kinds))
                rows.append((source, target, edge.slot, kind))
    table = np.array(rows, np.int32).reshape(-1, 4)
    columns = [np.ascontiguousarray(column) for column in table.T]
    return Edges(columns[0], columns[1], columns[2], columns[3], tuple(kinds))
