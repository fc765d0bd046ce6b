"""Names of the format: exact texts, and text -> values -> text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.dump import layout

REAL = (
    "Conv2D.Default_network-WithLossCell__backbone-LeNet5_conv1-Conv2d_Conv2D-op0"
    ".0.0.1794764846993684.input.1.DefaultFormat.Float32.npy"
)

any_text = st.text(max_size=60)
numbers = st.integers(0, 10**17)
ios = st.sampled_from(["input", "output"])


def test_a_name_reads_like_mindspores() -> None:
    head, tail = layout.name_parts(
        "Conv2D",
        "Default/network-WithLossCell/_backbone-LeNet5/conv1-Conv2d/Conv2D-op0",
        "input",
        1,
        layout.DEFAULT_FORMAT,
        "Float32",
    )
    assert f"{head}1794764846993684{tail}" == REAL


def test_a_real_name_is_taken_apart() -> None:
    assert layout.parse_tensor_file_name(REAL) == layout.TensorFile(
        "Conv2D",
        "Default_network-WithLossCell__backbone-LeNet5_conv1-Conv2d_Conv2D-op0",
        0,
        0,
        1794764846993684,
        "input",
        1,
        "DefaultFormat",
        "Float32",
    )


def test_the_older_naming_has_no_dtype() -> None:
    text = "Conv2D.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat.npy"
    parsed = layout.parse_tensor_file_name(text)
    assert parsed is not None
    assert (parsed.op, parsed.slot, parsed.dtype_label) == ("Conv2D.Conv2D-op12", 0, None)


def test_leaves_lose_their_dots_and_ops_keep_them() -> None:
    assert layout.escape_op("Parameter", "fc3.weight") == "Parameter.fc3_weight"
    assert layout.escape_op("add", "Default/block.3/add-op1") == "add.Default_block.3_add-op1"


def test_the_parts_join_to_the_name() -> None:
    head, tail = layout.name_parts("relu", "Default/relu-op3", "output", 0, "NCHW", "BFloat16")
    assert f"{head}17{tail}" == "relu.Default_relu-op3.0.0.17.output.0.NCHW.BFloat16.npy"


def test_a_constant_is_a_parameter_called_data() -> None:
    assert (
        layout.constant_file_name(7, 1794764846993684, "Int64")
        == "Parameter.data-7.0.0.1794764846993684.output.0.DefaultFormat.Int64.npy"
    )


def test_kernel_arguments_are_json_beside_the_tensors() -> None:
    assert layout.kernel_args_file_name("mm", "Default/mm-op1") == "mm.Default_mm-op1.json"


@given(any_text, any_text, numbers, numbers, numbers, ios, numbers, any_text, any_text)
def test_every_name_is_read_back(
    op_type: str,
    op_name: str,
    task: int,
    stream: int,
    timestamp: int,
    io: str,
    slot: int,
    format: str,
    label: str,
) -> None:
    head, tail = layout.name_parts(op_type, op_name, io, slot, format, label)
    head = f"{head.removesuffix('0.0.')}{task}.{stream}."
    parsed = layout.parse_tensor_file_name(f"{head}{timestamp}{tail}")
    assert parsed is not None
    assert parsed.op == layout.escape_op(op_type, op_name)
    assert (parsed.task, parsed.stream, parsed.timestamp) == (task, stream, timestamp)
    assert (parsed.io, parsed.slot) == (io, slot)
    assert parsed.format == layout.escape(format, dots=True)
    assert parsed.dtype_label == (layout.escape(label, dots=True) if label else None)


@given(st.text())
def test_no_escaped_text_leaves_its_directory(text: str) -> None:
    safe = layout.escape(text)
    assert safe
    assert not set(safe) & set('/\\:*?"<>|\0\n\r')
    safe.encode()


@given(st.text(max_size=400))
def test_any_other_text_is_refused_or_printed_back(text: str) -> None:
    parsed = layout.parse_tensor_file_name(text)
    if parsed is not None:
        assert text.startswith(parsed.op)


@pytest.mark.parametrize(
    "name",
    [
        f".{REAL}.partial",
        "statistic.csv",
        "12.npy",
        "Conv2D.npy",
        "Conv2D.a.0.0.1.middle.0.DefaultFormat.Float32.npy",
        "Conv2D.a.0.0.one.input.0.DefaultFormat.Float32.npy",
        "Conv2D.a.0.0.1.input.-1.DefaultFormat.Float32.npy",
        "Conv2D.a.0.0." + "9" * 5000 + ".input.0.DefaultFormat.Float32.npy",
    ],
)
def test_other_names_are_no_tensors(name: str) -> None:
    assert layout.parse_tensor_file_name(name) is None


def test_the_paths_of_a_rank() -> None:
    rank = layout.rank_layout(Path("/d"), 3)
    assert rank.root == Path("/d/rank_3")
    assert rank.metadata_config == Path("/d/rank_3/.dump_metadata/config.json")
    assert rank.metadata_dump_config == Path("/d/rank_3/.dump_metadata/data_dump.json")
    assert rank.graph_ir(2) == Path("/d/rank_3/graphs/ms_output_trace_code_graph_2.ir")
    assert rank.graph_pb(2) == Path("/d/rank_3/graphs/ms_output_trace_code_graph_2.pb")
    assert rank.order_csv(2) == Path("/d/rank_3/execution_order/ms_execution_order_graph_2.csv")
    assert rank.global_order_csv(2) == Path(
        "/d/rank_3/execution_order/ms_global_execution_order_graph_2.csv"
    )
    assert rank.step_dir("Net", 2, 17) == Path("/d/rank_3/Net/2/17")
    assert rank.unfinished_step_dir("Net", 17) == Path("/d/rank_3/Net/unfinished/17")
    assert rank.constants_dir("Net", 2) == Path("/d/rank_3/Net/2/constants")


def test_names_of_directories_and_graph_files_are_read_back() -> None:
    rank = layout.rank_layout(Path("/d"), 3)
    assert layout.parse_rank(rank.root.name) == 3
    assert layout.parse_graph_file(rank.graph_pb(12).name) == (12, "pb")
    assert layout.parse_graph_file(rank.graph_ir(12).name) == (12, "ir")
    assert layout.parse_id("17") == 17
    assert [layout.parse_id(text) for text in ("", "-1", "x", "1" * 30, "²")] == [None] * 5
    assert layout.parse_rank("rank_x") is None


def test_the_statistic_header_is_the_documents() -> None:
    assert layout.statistic_header(["max", "min", "l2norm"]) == (
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
        "Max Value,Min Value,L2Norm Value"
    )


def test_a_statistic_row_begins_with_its_tensor() -> None:
    head, tail = layout.statistic_row_parts(
        "mm", "Default/a,b/mm-op1", "output", 0, 24, "Float32", (2, 3)
    )
    assert f"{head}99{tail}" == 'mm,"Default/a,b/mm-op1",0,0,99,output,0,24,Float32,"(2,3)"'


def test_shapes_are_written_with_round_brackets() -> None:
    assert [layout.shape_text(shape) for shape in ((), (4,), (4, 1))] == ["()", "(4)", "(4,1)"]
