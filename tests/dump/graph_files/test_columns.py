"""The side file of a large graph: it gives the graph of its ``.pb``, or is ignored."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.core.sink import StepEnd
from sonde.dump.graph_files import columns as graph_columns
from sonde.dump.graph_files import pb as graph_pb
from sonde.dump.graph_files.columns import GraphColumns, decode_columns, encode_columns
from sonde.dump.layout import RankLayout, rank_layout
from sonde.dump.reader import Dump
from sonde.dump.sinks.steps import StepFiles
from sonde.dump.writing.writer import open_writer

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


def write(place: RankLayout, graph: Graph) -> bytes:
    """The graph files of ``graph``; the bytes of its side file."""
    pb = graph_pb.encode_graph(graph)
    columns = encode_columns(graph, pb)
    assert columns is not None
    place.graphs.mkdir(parents=True, exist_ok=True)
    place.graph_pb(graph.id).write_bytes(pb)
    place.graph_columns(graph.id).write_bytes(columns)
    return columns


@pytest.mark.parametrize("seed", range(5))
def test_the_side_file_gives_the_graph_of_the_pb(seed: int) -> None:
    graph = made(700, seed)
    pb = graph_pb.encode_graph(graph)
    columns = decode_columns(encode_columns(graph, pb) or b"", pb)
    assert columns is not None
    assert columns.graph() == graph_pb.decode_graph(pb).graph == graph
    assert (columns.id, columns.name, len(columns)) == (7, "Net", len(graph))
    assert GraphColumns.of(graph).graph() == graph


def test_a_small_graph_has_no_side_file() -> None:
    graph = made(20)
    assert encode_columns(graph, graph_pb.encode_graph(graph)) is None


def test_a_name_that_is_no_unicode_text_leaves_the_graph_without_side_file() -> None:
    graph = made(600)
    odd = Graph(7, "Net", (replace(graph.nodes[0], name="x\ud800"), *graph.nodes[1:]))
    assert encode_columns(odd, b"") is None


def test_the_side_file_of_another_pb_is_ignored(tmp_path: Path) -> None:
    rank = rank_layout(tmp_path, 0)
    write(rank, made(600))
    other = made(600, seed=1)
    rank.graph_pb(7).write_bytes(graph_pb.encode_graph(other))
    assert graph_pb.read_columns(rank.graph_pb(7)) is None
    dump = Dump(tmp_path)
    assert dump.graph(7) == other == dump.columns(7).graph()


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_side_file_is_ignored_or_describes_some_graph(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes changed, cut out or cut off: never an exception, and names stay unique."""
    monkeypatch.setattr(graph_columns, "MIN_NODES", 1)
    rng = random.Random(seed)
    graph = made(25, seed)
    pb = graph_pb.encode_graph(graph)
    whole = encode_columns(graph, pb)
    assert whole is not None
    found = [decode_columns(bytes(_damaged(bytearray(whole), rng)), pb) for _ in range(1500)]
    read = [columns.graph() for columns in found if columns is not None]
    assert all(len({node.name for node in graph}) == len(graph) for graph in read)
    assert read
    assert any(columns is None for columns in found)


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x90", b"\xdd\xff\xff\xff\xff", b"\x9e" + b"\x91" * 9]
)
def test_a_foreign_side_file_is_ignored(tmp_path: Path, content: bytes) -> None:
    rank = rank_layout(tmp_path, 0)
    graph = made(600)
    write(rank, graph)
    rank.graph_columns(7).write_bytes(content)
    assert graph_pb.read_columns(rank.graph_pb(7)) is None
    assert Dump(tmp_path).graph(7) == graph


def test_a_pipe_in_place_of_the_side_file_is_not_opened(tmp_path: Path) -> None:
    rank = rank_layout(tmp_path, 0)
    graph = made(600)
    write(rank, graph)
    rank.graph_columns(7).unlink()
    os.mkfifo(rank.graph_columns(7))
    assert Dump(tmp_path).graph(7) == graph


def test_a_side_file_larger_than_the_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = rank_layout(tmp_path, 0)
    size = len(write(rank, made(600)))
    assert graph_pb.read_columns(rank.graph_pb(7)) is not None
    monkeypatch.setattr(graph_columns, "MAX_FILE_BYTES", size - 1)
    assert graph_pb.read_columns(rank.graph_pb(7)) is None
    assert encode_columns(made(600), rank.graph_pb(7).read_bytes()) is None


def test_a_side_file_without_its_pb_is_no_graph(tmp_path: Path) -> None:
    rank = rank_layout(tmp_path, 0)
    write(rank, made(600))
    rank.graph_pb(7).unlink()
    dump = Dump(tmp_path)
    assert (dump.graph_ids(), dump.problems) == ((), ())


def test_a_dump_gives_columns_with_and_without_side_file(tmp_path: Path) -> None:
    rank = rank_layout(tmp_path, 0)
    large = made(600)
    small = Graph(1, "Net", made(5).nodes)
    write(rank, large)
    rank.graph_pb(1).write_bytes(graph_pb.encode_graph(small))
    dump = Dump(tmp_path)
    assert dump.columns(7).graph() == dump.graph(7) == large
    assert dump.columns(1).graph() == dump.graph(1) == small
    assert dump.problems == ()


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


def test_the_sink_writes_the_side_file_of_a_large_graph_only(tmp_path: Path) -> None:
    rank = rank_layout(tmp_path, 0)
    files = StepFiles(rank, "Net", open_writer(1, 1 << 30))
    for step, graph in enumerate((made(600), Graph(1, "Net", made(5).nodes))):
        files.open(step)
        files.end_step(StepEnd(step, graph, complete=True))
    files.close()
    assert graph_pb.read_columns(rank.graph_pb(7)) is not None
    assert not rank.graph_columns(1).exists()
    dump = Dump(tmp_path)
    assert (dump.graph(7), dump.problems) == (made(600), ())
