"""Which whole graph is shown in place of one that is growing."""

from __future__ import annotations

import msgspec

from sonde.server.live.graphs import LiveGraphs
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import GraphPart
from sonde.wire.shapes import Node

NODES = sample_graph(3)
INSIDE = tuple(node for node in NODES if node.kind == "op" and "/" in node.scope)


def outside(name: str) -> Node:
    """An op that makes the batch: it belongs to no module."""
    return msgspec.structs.replace(INSIDE[0], name=f"Default/{name}", scope="Default")


def like(growing: tuple[Node, ...], op: str) -> int | None:
    graphs = LiveGraphs(0)
    graphs.add(GraphPart(0, "g", 0, NODES, len(NODES)), 1)
    graphs.add(GraphPart(1, "g", 0, growing, None), 1)
    return graphs.described({}, op)[1].like


def test_what_makes_the_batch_does_not_replace_the_known_graph() -> None:
    batch = (outside("randint-op0"), outside("slice-op0"))
    assert like(batch, batch[-1].name) == 0
    assert like((*batch, INSIDE[0]), INSIDE[0].name) == 0


def test_an_op_outside_of_modules_is_only_in_the_graph_that_grows() -> None:
    graphs = LiveGraphs(0)
    same = outside("slice-op0")
    graphs.add(GraphPart(0, "g", 0, (*NODES, same), len(NODES) + 1), 1)
    assert [each.here for each in graphs.described({}, same.name)] == [len(NODES)]
    graphs.add(GraphPart(1, "g", 0, (same,), None), 1)
    assert [each.here for each in graphs.described({}, same.name)] == [None, 0]
    assert graphs.described({}, INSIDE[0].name)[0].here is not None


def test_a_new_op_of_a_module_is_shown_in_the_graph_that_grows() -> None:
    new = msgspec.structs.replace(INSIDE[0], name=f"{INSIDE[0].scope}/sqrt-op0")
    assert like((*INSIDE[:9], new), new.name) is None
    assert like((*INSIDE[:9], new), INSIDE[0].name) == 0
    assert like((INSIDE[0], new, new), INSIDE[0].name) is None
