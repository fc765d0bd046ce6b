"""The time of each op of a graph, as `sonde profile` measured it."""

from __future__ import annotations

from collections import Counter, defaultdict

from sonde.core.errors import UsageError
from sonde.core.graph import GRADIENTS
from sonde.profile.document import Profile
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues
from sonde.wire.convert import shown_line
from sonde.wire.shapes import Node

_Row = tuple[str, str, str, str, int]
"""Type, module, phase, and file and line of an op."""


def op_times(index: GraphIndex, profile: Profile | None) -> OpValues:
    """The seconds of each op in a step. A row of a profile stands for all ops of one type in one
    module, phase and line; each of them has an equal share of its time. UsageError without a
    profile."""
    if profile is None:
        raise UsageError(
            "no profile was given; 'sonde profile train.py' writes one, and the option --profile "
            "of sonde view, sonde debug and sonde serve reads it",
            slug="no-profile",
        )
    seconds: defaultdict[_Row, float] = defaultdict(float)
    for item in profile.ops:
        file, line = ("", 0) if item.place is None else (item.place.file, item.place.line)
        seconds[item.op, item.module, item.phase, file, line] += item.seconds
    rows = {node.name: _row(node) for node in index.nodes if node.kind == "op"}
    counts = Counter(rows.values())
    found = {op: seconds[row] / counts[row] for op, row in rows.items() if row in seconds}
    return OpValues("time", None, found, is_sum=True)


def _row(node: Node) -> _Row:
    shown = shown_line(node.sources)
    file, line = ("", 0) if shown is None else (shown.file, shown.line)
    return node.type, node.scope.removeprefix(GRADIENTS), node.phase, file, line
