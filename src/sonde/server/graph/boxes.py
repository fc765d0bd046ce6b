"""The boxes directly inside a scope of a graph; equal ones are merged into groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from sonde.server.graph.index import GraphIndex
from sonde.server.graph.labels import group_label, scope_label

SAME_OPS: Final = 12
"""At least so many ops of one type in one scope are drawn as one box."""
SAME_LEAVES: Final = 3
"""At least so many leaves whose names differ only in a number are drawn as one box."""
SAME_SCOPES: Final = 3
"""At least so many consecutive scopes with the same structure are drawn as one box. Scopes that are
not consecutive are merged only from ``SAME_OPS`` on, because that hides how data flows."""

What = Literal["op", "scope", "group", "outside"]


@dataclass(slots=True)
class Box:
    """One box of a level; ``parts`` are the nodes and scopes that it represents, scopes as negative
    numbers (``~scope``)."""

    path: str
    label: str
    what: What
    parts: list[int]
    stands_for: int = 1


def single(index: GraphIndex, part: int) -> Box:
    if part >= 0:
        return Box(index.nodes[part].name, index.shown_label(part), "op", [part])
    scope = index.scopes[~part]
    return Box(scope.path, scope_label(scope.label), "scope", [part])


def grouped(index: GraphIndex, place: int) -> list[Box]:
    """The children of a scope, equal ones merged, in the order of their first nodes."""
    scope = index.scopes[place]
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for child in scope.children:
        if child >= 0:
            node = index.nodes[child]
            alike[(node.type, node.kind, node.phase)].append(child)
        else:
            alike[index.scopes[~child].repeats_as].append(child)
    boxes: list[Box] = []
    follows = _followers(index, scope.children)
    for children in alike.values():
        if len(children) >= SAME_OPS:
            boxes.append(_group(index, scope.path, children))
        elif children[0] >= 0:
            boxes.extend(_few(index, scope.path, children))
        else:
            for run in _runs(children, follows):
                if len(run) >= SAME_SCOPES:
                    boxes.append(_group(index, scope.path, run))
                else:
                    boxes.extend(single(index, child) for child in run)
    boxes.sort(key=lambda box: _first(index, box.parts[0]))
    return boxes


def _followers(index: GraphIndex, children: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of consecutive children; leaves do not count."""
    acting = [child for child in children if child < 0 or index.nodes[child].kind == "op"]
    return {(one, other) for one, other in pairwise(acting) if not _skips(index, one, other)}


def _skips(index: GraphIndex, one: int, other: int) -> bool:
    """Whether two scopes have numbers that do not follow each other, such as ``0-Linear`` and
    ``2-Linear``, whose parameters alone were prepared one after the other."""
    if one >= 0 or other >= 0:
        return False
    names = [index.scopes[~each].label.partition("-")[0] for each in (one, other)]
    return all(name.isdecimal() for name in names) and int(names[1]) != int(names[0]) + 1


def _runs(children: Sequence[int], follows: Collection[tuple[int, int]]) -> list[list[int]]:
    runs = [[children[0]]]
    for before, child in pairwise(children):
        if (before, child) in follows:
            runs[-1].append(child)
        else:
            runs.append([child])
    return runs


def _few(index: GraphIndex, path: str, children: Sequence[int]) -> list[Box]:
    """A box for each node; numbered leaves are merged."""
    numbered: dict[str | int, list[int]] = defaultdict(list)
    for child in children:
        is_leaf = index.nodes[child].kind != "op"
        stem = index.label(child).rstrip("0123456789") if is_leaf else ""
        numbered[stem if stem.endswith(("-", "_")) else child].append(child)
    return [
        _group(index, path, few) if len(few) >= SAME_LEAVES else single(index, child)
        for few in numbered.values()
        for child in (few[:1] if len(few) >= SAME_LEAVES else few)
    ]


def _group(index: GraphIndex, path: str, children: list[int]) -> Box:
    if children[0] >= 0:
        label, key = index.nodes[children[0]].type, index.label(children[0])
    else:
        scopes = [index.scopes[~child] for child in children]
        label, key = group_label([scope.label for scope in scopes]), f"{scopes[0].label}/"
    return Box(f"{path}*{key}", label, "group", children, len(children))


def _first(index: GraphIndex, part: int) -> int:
    return part if part >= 0 else index.scopes[~part].first
