"""Large graphs by Sonde are decoded all at once; the slow way says what that must give."""

import random
from pathlib import Path

import pytest

from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump import graph_columns, graph_pb
from sonde.dump.graph_columns import GraphColumns, decode_columns
from sonde.dump.protowire import WireError
from sonde.dump.reader import Dump

FLAT, WIDE, NONE = TensorSpec("float32", (2, 3)), TensorSpec("bfloat16", (4,)), TensorSpec("x", ())


def made(ops: int, seed: int = 0) -> Graph:
    """Ops with zero to three inputs, parameters and constants among them, odd names and stacks."""
    rng = random.Random(seed)
    nodes = [OpNode("x", "Input", "Default", "forward", "input", (), (FLAT,))]
    for number in range(ops):
        if number % 7 == 0:
            name = f"layer.{number}.weight"
            nodes.append(OpNode(name, "Parameter", "net", "forward", "parameter", (), (WIDE,)))
        if number % 11 == 0:
            attributes = (("value", str(number)),)
            constant = OpNode(f"c{number}", "Constant", "net", "forward", "constant", (), (FLAT,))
            nodes.append(
                OpNode(*(getattr(constant, f) for f in constant.__slots__[:7]), attributes)
            )
        edges = []
        for _ in range(rng.randrange(4)):
            origin = rng.choice(nodes)
            slot = rng.randrange(max(len(origin.outputs), 1))
            spec = origin.outputs[slot] if slot < len(origin.outputs) else NONE
            edges.append(Edge(origin.name, slot, rng.choice((spec, WIDE))))
        if number % 13 == 0:
            edges.append(Edge(None, 0, NONE))
            edges.append(Edge("a node that is not here", 2, FLAT))
        sources = tuple(
            Source(f"/home/ü{rng.randrange(3)}.py", rng.randrange(200), "forward", "x = f(x)")
            for _ in range(rng.randrange(3))
        )
        phase = rng.choice(("forward", "backward", "optimizer"))
        outputs = rng.choice(((), (FLAT,), (FLAT, WIDE)))
        attributes = tuple((f"a{n}", "x" * n) for n in range(rng.randrange(4)))
        name = f"Default/net/größe-op{number}"
        nodes.append(
            OpNode(
                name, "mul", "Default/net", phase, "op", tuple(edges), outputs, attributes, sources
            )
        )
    return Graph(7, "Net", tuple(nodes))


def test_columns_give_the_graph_that_was_written() -> None:
    graph = made(900)
    columns = decode_columns(graph_pb.encode_graph(graph))
    assert columns is not None
    assert columns.graph() == graph
    assert (columns.id, columns.name, len(columns)) == (7, "Net", len(graph))


def test_columns_of_a_graph_are_the_decoded_ones() -> None:
    graph = made(700, seed=3)
    columns = decode_columns(graph_pb.encode_graph(graph))
    assert columns is not None
    assert GraphColumns.of(graph).graph() == columns.graph() == graph


def test_a_small_graph_is_left_to_the_slow_way() -> None:
    assert decode_columns(graph_pb.encode_graph(made(20))) is None


def outcome(data: bytes) -> object:
    try:
        return graph_pb.decode_graph(data).graph
    except WireError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_told_as_the_slow_way_tells_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """150 files each, with bytes changed, cut out or cut off: the same graph or the same words."""
    monkeypatch.setattr(graph_columns, "MANY", 1)
    rng = random.Random(seed)
    whole = graph_pb.encode_graph(made(25, seed))
    damaged = [bytes(_damaged(bytearray(whole), rng)) for _ in range(150)]
    fast = [outcome(data) for data in damaged]
    monkeypatch.setattr(graph_columns, "MANY", 1 << 40)
    assert fast == [outcome(data) for data in damaged]
    assert sum(isinstance(each, Graph) for each in fast) > 10


def _damaged(data: bytearray, rng: random.Random) -> bytearray:
    place = rng.randrange(len(data))
    what = rng.randrange(3)
    if what == 0:
        data[place] = rng.randrange(256)
    elif what == 1:
        del data[place : place + rng.randrange(1, 9)]
    else:
        del data[place:]
    return data


def test_a_dump_gives_columns_of_large_and_small_graphs(tmp_path: Path) -> None:
    graphs = tmp_path / "rank_0" / "graphs"
    graphs.mkdir(parents=True)
    for number, ops in ((0, 600), (1, 5)):
        graph = made(ops)
        graph = Graph(number, graph.name, graph.nodes)
        path = graphs / f"ms_output_trace_code_graph_{number}.pb"
        path.write_bytes(graph_pb.encode_graph(graph))
    dump = Dump(tmp_path)
    assert dump.columns(0).graph() == dump.graph(0)
    assert dump.columns(1).graph() == dump.graph(1)
    assert len(dump.graph(0)) > 600
