"""Infinities that were put in on purpose and did no harm are no hits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from sonde.server.graph_index import GraphIndex
from sonde.wire.shapes import Hit, Node

_OVERFLOWS: Final = frozenset(
    {"tensor_overflow", "operator_overflow", "weight_overflow", "gradient_exploding"}
)
_INFINITE: Final = re.compile(r"[-+]?inf\b", re.IGNORECASE)


def without_blame(
    hits: Sequence[Hit], graph: GraphIndex | None, named: Mapping[int, Collection[str]]
) -> list[Hit]:
    """The hits of one step of one rank; those of innocent infinities as undecided.

    Infinities are innocent if they came in with a leaf, or an argument asked for them (a mask
    filled with ``-inf``), until a NaN comes of them or they show in backward or optimizer.
    ``named``: the ops that a watchpoint names one by one, which it is told of in any case.
    """
    if graph is None:
        return list(hits)
    guilty = {hit.origin for hit in hits if _is_harm(hit, graph)}
    found: list[Hit] = []
    for hit in hits:
        asked = None
        if _is_overflow(hit) and hit.origin is not None and hit.origin not in guilty:
            asked = _asked(graph.node(hit.origin)) if hit.origin in graph.numbers else None
        if asked is None or hit.op in named.get(hit.watchpoint, ()):
            found.append(hit)
            continue
        why = f"the infinities of {hit.origin}{asked} were put in on purpose; no NaN came of them"
        found.append(msgspec.structs.replace(hit, verdict="undecided", why=why))
    return found


def _is_overflow(hit: Hit) -> bool:
    return hit.verdict == "hit" and hit.condition in _OVERFLOWS


def _is_harm(hit: Hit, graph: GraphIndex) -> bool:
    if hit.origin is None:
        return False
    if any(value.name == "nan_count" and value.actual for value in hit.values):
        return True
    return hit.op in graph.numbers and graph.node(hit.op).phase != "forward"


def _asked(node: Node) -> str | None:
    """How the infinities were asked for; None if they were not."""
    if node.kind != "op":
        return ""
    for name, value in node.attributes:
        if _INFINITE.fullmatch(value.strip()):
            return f" ({name}={value})"
    return None
