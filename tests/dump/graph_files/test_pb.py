"""Graph files: exact for our own graphs, correct for MindSpore's, robust against damage."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dump.graph_files.graphs import graphs
from tests.dump.graph_files.irpb import message_class, schema
from tests.golden.sample import sample_graph

from sonde.core.errors import DumpError
from sonde.core.files.protobuf_wire import WireError, encode_bytes, encode_text, encode_uint
from sonde.core.graph import Edge, Graph, Source, TensorSpec
from sonde.dump.graph_files.pb import decode_graph, encode_graph, read_graph_file
from sonde.dump.graph_files.schema import FIELDS

DATA = Path(__file__).parents[1] / "data"
NET = "Default/network-WithLossCell/_backbone-GateNet"


def _mindspore(name: str) -> Graph:
    path = DATA / name / "dump/rank_0/graphs/ms_output_trace_code_graph_0.pb"
    found = read_graph_file(path, 0)
    assert found.writer == "mindspore"
    return found.graph


@given(graphs())
def test_any_graph_is_read_back_equal(graph: Graph) -> None:
    assert decode_graph(encode_graph(graph)).graph == graph


def test_the_same_graph_has_the_same_bytes() -> None:
    assert encode_graph(sample_graph()) == encode_graph(sample_graph())


def test_the_code_reads_every_field_of_the_schema() -> None:
    declared = {
        message: {name: number for name, (_, _, number, _) in fields.items()}
        for message, fields in schema().items()
    }
    read = {
        message: {name: field.number for name, field in fields.items()}
        for message, fields in FIELDS.items()
    }
    assert read == declared


def test_protobuf_itself_reads_our_graph_in_mindspores_fields() -> None:
    model = message_class("ModelProto")()
    model.ParseFromString(encode_graph(sample_graph()))
    assert (model.domain, model.graph.name, model.graph.root_name) == ("sonde", "Net", "3")
    assert [item.name for item in model.graph.parameters] == [
        "input0",
        "Default/network-Net/conv.weight",
    ]
    assert [item.key for item in model.graph.const_vals] == ["cst1", "cst2"]
    conv, norm = model.graph.node[0], model.graph.node[1]
    assert conv.name == "1"
    assert conv.op_type == "convolution"
    assert conv.full_name == "Default/network-Net/conv-Conv2d/convolution-op1"
    assert conv.scope == "Default/network-Net/conv-Conv2d"
    assert [item.name for item in conv.input] == ["input0", "Default/network-Net/conv.weight"]
    assert conv.attribute[0].value.str_val == "[1, 1]"
    assert conv.output_type.data_type == 14
    assert conv.output_type.tensor_type.elem_type == 11
    assert [dim.size for dim in conv.output_type.tensor_type.shape.dim] == [2, 4, 6, 6]
    assert [item.name for item in norm.input] == ["1", ""]
    assert len(norm.output_type.sequence_type.elem_types) == 3
    assert conv.source_address.splitlines()[0] == (
        "      # In file /home/ada/net.py(26)/        x = self.bn(self.conv(x))/"
    )


@given(graphs())
def test_protobuf_writes_the_same_graph_that_we_wrote(graph: Graph) -> None:
    model = message_class("ModelProto")()
    model.ParseFromString(encode_graph(graph))
    assert decode_graph(model.SerializeToString()).graph == graph


@pytest.mark.parametrize(("name", "ops", "leaves"), [("nan_log", 43, 27), ("mlp_filter", 63, 49)])
def test_a_real_graph_has_all_its_nodes(name: str, ops: int, leaves: int) -> None:
    graph = _mindspore(name)
    assert (len(graph.ops), len(graph) - len(graph.ops)) == (ops, leaves)
    order = (DATA / name / "dump/rank_0/execution_order/ms_execution_order_graph_0.csv").read_text()
    for full_name in order.split()[1:]:
        assert full_name in graph


def test_a_real_op_has_its_wiring_shapes_and_source() -> None:
    graph = _mindspore("nan_log")
    log = graph.node(f"{NET}/Log-op0")
    assert (log.type, log.scope, log.phase, log.kind) == ("Log", NET, "forward", "op")
    assert log.inputs == (Edge(f"{NET}/Add-op0", 0, TensorSpec("float32", (4, 1))),)
    assert log.outputs == (TensorSpec("float32", (4, 1)),)
    assert dict(log.attributes)["base"] == "-1.0"
    assert log.source == Source(
        "/home/me/net/fixtures/public/nan_log/make.py",
        24,
        "construct",
        "        gate = ops.log(x[:, 0:1] + 1.0)",
    )


def test_real_leaves_come_before_their_first_use() -> None:
    graph = _mindspore("nan_log")
    seen: set[str | None] = set()
    for node in graph:
        assert all(edge.producer in seen for edge in node.inputs), node.name
        seen.add(node.name)
    weight = graph.node("fc1.weight")
    assert (weight.kind, weight.type, weight.outputs) == (
        "parameter",
        "Parameter",
        (TensorSpec("float32", (8, 6)),),
    )
    assert graph.node("inputs0").kind == "input"
    assert graph.node("Default_data-4").attributes == (("value", "(0, 0)"),)


def test_real_phases_are_derived_from_the_scopes() -> None:
    phases = {node.phase: node.name for node in _mindspore("nan_log").ops}
    assert phases["backward"].startswith("Gradients/")
    assert phases["optimizer"].startswith("Default/optimizer-SGD/")


def test_the_index_of_a_tuple_item_is_the_slot_of_its_edge() -> None:
    model = message_class("ModelProto")()
    graph = model.graph
    split = graph.node.add(name="1", op_type="Split", full_name="Default/Split-op0")
    for size in (5, 7):
        kind = split.output_type.sequence_type.elem_types.add(data_type=14)
        kind.tensor_type.elem_type = 46
        kind.tensor_type.shape.dim.add(size=size)
    constant = graph.const_vals.add(key="cst1")
    constant.value.dtype = 5
    constant.value.int_val = 1
    item = graph.node.add(name="2", op_type="TupleGetItem", full_name="Default/TupleGetItem-op0")
    item.input.add(name="1")
    item.input.add(name="cst1")
    found = decode_graph(model.SerializeToString()).graph.node("Default/TupleGetItem-op0")
    assert found.inputs[0] == Edge("Default/Split-op0", 1, TensorSpec("bfloat16", (7,)))
    assert found.inputs[1] == Edge("cst1", 0, TensorSpec("int64", ()))


def test_values_read_as_a_person_would_write_them() -> None:
    model = message_class("ModelProto")()
    node = model.graph.node.add(name="1", op_type="X", full_name="X-op0")

    def attribute(name: str, **fields: object) -> None:
        item = node.attribute.add(name=name)
        for key, value in fields.items():
            if isinstance(value, list):
                getattr(item.value, key).extend(value)
            else:
                setattr(item.value, key, value)

    attribute("flag", dtype=1, bool_val=True)
    attribute("negative", dtype=5, int_val=-3)
    attribute("eps", dtype=11, float_val=1e-5)
    attribute("mode", dtype=13, str_val="valid")
    attribute("pads", dtype=19, int_vals=[1, -1])
    attribute("nothing", dtype=34)
    nested = node.attribute.add(name="nested")
    nested.value.dtype = 31
    inner = nested.value.values.add(dtype=32)
    inner.values.add(dtype=13, str_val="x")
    inner.values.add(dtype=13, str_val="w")
    nested.value.values.add(dtype=5, int_val=2)
    found = decode_graph(model.SerializeToString()).graph.node("X-op0")
    assert dict(found.attributes) == {
        "flag": "True",
        "negative": "-3",
        "eps": "1e-05",
        "mode": "valid",
        "pads": "(1, -1)",
        "nothing": "None",
        "nested": "([x, w], 2)",
    }


def test_two_real_nodes_of_one_name_stay_two() -> None:
    model = message_class("ModelProto")()
    for key in ("1", "2", "3"):
        model.graph.node.add(name=key, op_type="Load", full_name="Load-op0")
    names = [node.name for node in decode_graph(model.SerializeToString()).graph]
    assert names == ["Load-op0", "Load-op0#2", "Load-op0#3"]


def test_many_nodes_of_one_name_take_no_longer_than_others() -> None:
    model = message_class("ModelProto")()
    for key in range(20_000):
        model.graph.node.add(name=str(key), full_name="Load-op0")
    assert len(decode_graph(model.SerializeToString()).graph) == 20_000


def test_an_error_names_the_file_and_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "ms_output_trace_code_graph_0.pb"
    path.write_bytes(encode_graph(sample_graph())[:-9])
    with pytest.raises(DumpError, match=r"graph_0\.pb: not a graph file: .* at byte \d+") as caught:
        read_graph_file(path, 0)
    assert caught.value.slug == "graph-file"


def test_a_missing_file_is_a_sonde_error(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="No such file"):
        read_graph_file(tmp_path / "no.pb", 0)


def test_deep_nesting_is_refused() -> None:
    value = b""
    for _ in range(5000):
        value = encode_bytes(18, value)
    attribute = encode_bytes(5, encode_text(1, "a") + encode_bytes(2, value))
    data = encode_bytes(4, encode_bytes(1, encode_text(8, "n") + attribute))
    with pytest.raises(WireError, match="nested deeper"):
        decode_graph(data)


@pytest.mark.parametrize("number", [1001, 1004])
def test_a_number_packed_into_megabytes_is_refused(number: int) -> None:
    node = encode_text(8, "n") + encode_bytes(number, bytes(2_000_000))
    with pytest.raises(WireError):
        decode_graph(encode_bytes(4, encode_bytes(1, node)))


def test_unpacked_numbers_far_into_a_file_are_read() -> None:
    model = message_class("ModelProto")()
    node = model.graph.node.add(name="x" * 2_000_000, full_name="n")
    data = node.SerializeToString() + encode_uint(1004, 0)
    graph = encode_bytes(1, data) + encode_uint(1001, 0)
    with pytest.raises(WireError, match="the node at position 0 is missing"):
        decode_graph(encode_bytes(4, graph))


def test_a_file_without_a_graph_is_refused() -> None:
    with pytest.raises(WireError, match="there is no graph"):
        decode_graph(b"")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_graph_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_graph(data)


@pytest.mark.parametrize("source", ["ours", "nan_log"])
def test_a_damaged_graph_is_read_or_refused_and_never_more(source: str) -> None:
    if source == "ours":
        whole = encode_graph(sample_graph())
    else:
        whole = (DATA / "nan_log/dump/rank_0/graphs/ms_output_trace_code_graph_0.pb").read_bytes()
    rng = random.Random(7)
    positions = []
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        try:
            decode_graph(bytes(data))
        except WireError as error:
            positions.append(error.position / len(data))
    assert positions
    assert all(0 <= position <= 1 for position in positions)
