"""Matches the events of a profile with the ops of the learned graph.

The graph has the ops of one step in execution order, with scope and source line. The profile of
another step has the same ops, and the ops inside them, with times.
"""

from __future__ import annotations

from collections.abc import Sequence

from sonde.core.graph import Graph, OpNode
from sonde.profile.record.events import Nested

_MOST_EDITS = 400


def name_events(main: Nested, graph: Graph | None) -> dict[int, OpNode]:
    """The matching op of the graph, by the index of the event.

    Events of ops that the learned step did not run are not matched; those after them are.
    """
    if graph is None:
        return {}
    ops = graph.ops
    wanted = [_key(node.type) for node in ops]
    candidates = _outermost(main, frozenset(wanted))
    found = [_key(op_type(main.events[index].name)) for index in candidates]
    return {candidates[j]: ops[i] for i, j in align(wanted, found)}


def inherited(main: Nested, names: dict[int, OpNode]) -> list[OpNode | None]:
    """The op to which each event belongs: its own, or that of the enclosing event."""
    nodes: list[OpNode | None] = []
    for index, parent in enumerate(main.parents):
        node = names.get(index)
        nodes.append(node if node is not None or parent < 0 else nodes[parent])
    return nodes


def align(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of a longest common subsequence of ``a`` and ``b``, in pairs.

    Myers' algorithm, which is fast for sequences that differ little. After ``_MOST_EDITS``
    differences it stops, and the rest is not paired.
    """
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    tail = 0
    while tail < min(len(a), len(b)) - start and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle = _shortest_edit(a[start : len(a) - tail], b[start : len(b) - tail])
    return [
        *((i, i) for i in range(start)),
        *((start + i, start + j) for i, j in middle),
        *((len(a) - k, len(b) - k) for k in range(tail, 0, -1)),
    ]


def _shortest_edit(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs that remain after the fewest insertions and deletions, from left to right."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), _MOST_EDITS) + 1):
        history.append(dict(furthest))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= len(a) and y >= len(b):
                return _walk_back(history, len(a), len(b))
    k = max(furthest, key=lambda each: 2 * furthest[each] - each)
    return _walk_back(history, furthest[k], furthest[k] - k)


def _walk_back(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest = history[edits]
        k = x - y
        down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
        from_x = furthest[k + 1] if down else furthest[k - 1]
        from_y = from_x - (k + 1 if down else k - 1)
        edit_x, edit_y = (from_x, from_y + 1) if down else (from_x + 1, from_y)
        if edits == 0:
            edit_x = edit_y = 0
        while x > edit_x and y > edit_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    return pairs[::-1]


def op_type(name: str) -> str:
    """The graph's name for an op of the profiler: ``addmm``, ``c10d_allreduce_``."""
    namespace, _, op = name.rpartition("::")
    return op if namespace in ("", "aten") else f"{namespace}_{op}"


def is_collective_type(op_type: str) -> bool:
    """Whether an op of the graph starts a collective."""
    return op_type.startswith(("c10d_", "_c10d_functional_"))


def _key(name: str) -> str:
    """The name without the mark of in-place ops: gradients are accumulated in place, but not in
    the learned step."""
    return name.rstrip("_") or name


def _outermost(main: Nested, wanted: frozenset[str]) -> list[int]:
    """The events with the name of an op of the graph that no other such event encloses."""
    found: list[int] = []
    is_inside: list[bool] = []
    for index, (event, parent) in enumerate(zip(main.events, main.parents, strict=True)):
        is_nested = parent >= 0 and is_inside[parent]
        is_op = not event.is_range and _key(op_type(event.name)) in wanted
        is_inside.append(is_nested or is_op)
        if is_op and not is_nested:
            found.append(index)
    return found
