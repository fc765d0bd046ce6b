"""Says in words how one graph of a training differs from the usual one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from itertools import takewhile
from typing import Final

from sonde.core.graph import OPTIMIZER
from sonde.server.graph.labels import scope_label
from sonde.server.graph.step_parts import TOP_SCOPE
from sonde.wire.shapes import Node

MOST_RANGES: Final = 200
_MOST_PLACES: Final = 2
NamedNodes = tuple[Sequence[Node], Container[str]]
"""The nodes of a graph, and their names."""
_ITEM: Final = re.compile(r"([A-Za-z_][\w.]*)\.item\(\)")


def step_ranges(steps: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Sorted steps as the first and last of consecutive ones, the newest if there are many."""
    found: list[tuple[int, int]] = []
    for step in steps:
        if found and found[-1][1] == step - 1:
            found[-1] = (found[-1][0], step)
        else:
            found.append((step, step))
    return tuple(found[-MOST_RANGES:])


def difference(graph: NamedNodes, usual: NamedNodes) -> str:
    """How ``graph`` differs from ``usual``, which ran later: ``first step of AdamW``,
    ``+ loss.item()``, ``- 12 ops in gate``; empty for graphs with the same ops.

    Data making counts only if nothing else differs: a debugger that is attached when the network
    is first called does not see how the first batch was made."""
    added, removed = _without(graph, usual), _without(usual, graph)
    made = _data_making(graph[0]) | _data_making(usual[0])
    others = {node.name for node in (*added, *removed) if _kind(node) not in made}
    if others:
        added = [node for node in added if node.name in others]
        removed = [node for node in removed if node.name in others]
    optimizers = {_optimizer(node) for node in (*added, *removed)}
    if added and len(optimizers) == 1 and (name := optimizers.pop()):
        return f"first step of {name}"
    return ", ".join((*_places("+", added), *_places("\N{MINUS SIGN}", removed)))


def _without(graph: NamedNodes, other: NamedNodes) -> list[Node]:
    """The ops of ``graph`` that ``other`` has not, without those that autograd adds."""
    (nodes, _), (_, names) = graph, other
    return [
        node
        for node in nodes
        if node.kind == "op" and node.name not in names and node.type != "detach"
    ]


def _data_making(nodes: Sequence[Node]) -> set[tuple[str, str]]:
    """The kinds of ops that ran before the first op of a module. Without them later ops of their
    kind have other numbers, and so other names."""
    ops = (node for node in nodes if node.kind == "op")
    return {_kind(node) for node in takewhile(lambda node: node.scope == TOP_SCOPE, ops)}


def _kind(node: Node) -> tuple[str, str]:
    return node.scope, node.type


def _optimizer(node: Node) -> str:
    """The class of the optimizer that ran an op; empty for other ops."""
    part = node.scope.partition("/")[2].partition("/")[0]
    return part.partition("-")[2] if part.startswith(f"{OPTIMIZER}-") else ""


def _places(sign: str, nodes: Collection[Node]) -> Iterable[str]:
    """Where the ops are: what reads a number by name, the others by their scopes."""
    items = dict.fromkeys(text for node in nodes if (text := _item(node)))
    rest = [node for node in nodes if not _item(node)]
    for text in items:
        yield f"{sign} {text}"
    scopes = Counter(scope_label(node.scope.rpartition("/")[2]) for node in rest)
    for scope, count in scopes.most_common(_MOST_PLACES):
        yield f"{sign} {_ops(count)} in {scope}"
    left = sum(scopes.values()) - sum(count for _, count in scopes.most_common(_MOST_PLACES))
    if left:
        yield f"{sign} {left} more"


def _ops(count: int) -> str:
    return "1 op" if count == 1 else f"{count:,} ops"


def _item(node: Node) -> str:
    """``loss.item()`` for the op that such a line runs; else empty."""
    if node.type != "_local_scalar_dense" or not node.sources:
        return ""
    found = _ITEM.search(node.sources[0].code)
    return "" if found is None else found.group(0)
