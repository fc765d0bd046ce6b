"""Which op of the learned graph each event of a profile is.

The graph has the ops of one step in the order they ran, with scope and source line. The profile
of another step has the same ops, and inside them those they are made of, with times.
"""

from __future__ import annotations

from collections.abc import Sequence

from sonde.core.graph import Graph, OpNode
from sonde.profile.events import Nested

_LOOK_AHEAD = 200
_ENOUGH = 3


def name_events(main: Nested, graph: Graph | None) -> dict[int, OpNode]:
    """The graph's op for each event that is one, by the event's index.

    Where the step did other things than the one that was learned, those have no name and the
    events after them do.
    """
    if graph is None:
        return {}
    ops = [node for node in graph if node.kind == "op"]
    wanted = [_key(node.type) for node in ops]
    candidates = _outermost(main, frozenset(wanted))
    found = [_key(op_type(main.events[index].name)) for index in candidates]
    return {candidates[j]: ops[i] for i, j in align(wanted, found)}


def inherited(main: Nested, names: dict[int, OpNode]) -> list[OpNode | None]:
    """The op each event belongs to: its own, or that of the event it lies in."""
    nodes: list[OpNode | None] = []
    for index, parent in enumerate(main.parents):
        node = names.get(index)
        nodes.append(node if node is not None or parent < 0 else nodes[parent])
    return nodes


def align(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of positions of equal words, increasing in both; all of them where a equals b.

    At a difference both sides are searched a little ahead for the nearest place from which a few
    words in a row are equal again.
    """
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
            continue
        step = _nearest_agreement(a, b, i, j)
        if step is None:
            i, j = i + 1, j + 1
        else:
            i, j = i + step[0], j + step[1]
    return pairs


def _nearest_agreement(
    a: Sequence[str], b: Sequence[str], i: int, j: int
) -> tuple[int, int] | None:
    for distance in range(1, _LOOK_AHEAD):
        for skip in range(distance + 1):
            at, bt = i + skip, j + distance - skip
            run = min(_ENOUGH, len(a) - at, len(b) - bt)
            if run > 0 and a[at : at + run] == b[bt : bt + run]:
                return skip, distance - skip
    return None


def op_type(name: str) -> str:
    """The graph's word for an op of the profiler: ``addmm``, ``c10d_allreduce_``."""
    namespace, _, op = name.rpartition("::")
    return op if namespace in ("", "aten") else f"{namespace}_{op}"


def is_collective_type(op_type: str) -> bool:
    """Whether an op of the graph starts a collective."""
    return op_type.startswith(("c10d_", "_c10d_functional_"))


def _key(name: str) -> str:
    """Gradients are added up in place without observation and not in place with it."""
    return name.rstrip("_") or name


def _outermost(main: Nested, wanted: frozenset[str]) -> list[int]:
    """Events called like an op of the graph that lie in no other such event."""
    found: list[int] = []
    is_inside: list[bool] = []
    for index, event in enumerate(main.events):
        parent = main.parents[index]
        if parent >= 0 and is_inside[parent]:
            is_inside.append(True)
            continue
        is_op = not event.is_range and _key(op_type(event.name)) in wanted
        is_inside.append(is_op)
        if is_op:
            found.append(index)
    return found
