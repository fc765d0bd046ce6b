"""``Dump`` on real dumps by msprobe; torch is the truth about ``.pt`` files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.dump.msprobe_dumps import unpacked

from sonde.core.errors import DumpError
from sonde.dump.reader import Dump
from sonde.dump.reading.msprobe.document import op_type

LINEAR = "Default/blocks-Sequential/0-Block/fc-Linear/Functional.linear.0.forward"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


def test_every_tensor_of_a_dump_is_read(place: Path) -> None:
    dump = Dump(place / "L1_tensor")
    assert (dump.writer(), dump.ranks, dump.steps()) == ("msprobe", (0,), (0, 1))
    assert dump.metadata().config["msprobe_level"] == "L1"
    assert dump.problems == dump.check() == ()
    records = list(dump.tensors(step=0))
    directory = place / "L1_tensor" / "step0" / "proc1234" / "dump_tensor_data"
    assert {record.path for record in records} == set(directory.iterdir())
    for record in records:
        tensor = torch.load(record.path, weights_only=True)
        np.testing.assert_array_equal(record.numpy(), tensor.detach().numpy())
        assert (record.dtype, record.shape) == (str(tensor.dtype)[6:], tuple(tensor.shape))


def test_statistics_are_those_of_the_document(place: Path) -> None:
    dump = Dump(place / "mix_statistics")
    document = json.loads(
        (place / "mix_statistics" / "step1" / "proc1234" / "dump.json").read_text()
    )
    entry = document["data"]["Functional.linear.0.forward"]["output"][0]
    (record,) = dump.tensors(step=1, op=LINEAR, io="output")
    assert record.row is not None
    assert record.row.values == {
        "max": entry["Max"],
        "min": entry["Min"],
        "avg": entry["Mean"],
        "l2norm": entry["Norm"],
    }
    assert (record.path, record.shape) == (None, (4, 8))


def test_calls_have_the_scope_of_their_module_their_phase_and_their_line(place: Path) -> None:
    graph = Dump(place / "mix_tensor").graph(0)
    node = graph.node(LINEAR)
    assert (node.type, node.phase) == ("linear", "forward")
    assert node.source is not None
    assert (node.source.file, node.source.line) == ("/home/ada/probe_dump.py", 21)
    assert [edge.producer for edge in node.inputs] == [
        "Functional.linear.0.forward.input.0",
        "blocks.0.fc.weight",
        "blocks.0.fc.bias",
    ]
    norm = graph.node(
        "Default/blocks-Sequential/0-Block/norm-LayerNorm/Functional.layer_norm.0.forward"
    )
    assert [edge.producer for edge in norm.inputs][1:] == [
        "blocks.0.norm.weight",
        "blocks.0.norm.bias",
    ]
    assert {node.name for node in graph if node.kind == "parameter"} > {"head.weight", "head.bias"}
    backward = graph.node(
        "Gradients/Default/blocks-Sequential/1-Block/fc-Linear/Functional.linear.1.backward"
    )
    assert (backward.type, backward.phase) == ("linear_backward", "backward")
    assert {op.phase for op in graph.ops if op.type == "add_"} == {"optimizer"}


def test_inputs_are_connected_to_the_innermost_call_that_made_them(place: Path) -> None:
    graph = Dump(place / "mix_statistics").graph(0)
    block = "Default/blocks-Sequential/1-Block"
    relu = graph.node(f"{block}/Functional.relu.1.forward")
    assert [edge.producer for edge in relu.inputs] == [
        f"{block}/norm-LayerNorm/Functional.layer_norm.1.forward"
    ]
    loss = graph.node("Default/Functional.cross_entropy.0.forward")
    assert loss.inputs[0].producer == "Default/head-Linear/Functional.linear.2.forward"
    names = [node.name for node in graph]
    module = names.index(f"{block}/Module.blocks.1.Block.forward.0")
    assert module > names.index(f"{block}/Tensor.__add__.1.forward")
    only_modules = Dump(place / "L0_statistics").graph(0)
    head = only_modules.node("Default/head-Linear/Module.head.Linear.forward.0")
    assert head.inputs[0].producer == f"{block}/Module.blocks.1.Block.forward.0"


def test_equal_steps_share_a_graph_and_others_do_not(place: Path, tmp_path: Path) -> None:
    assert Dump(place / "L1_tensor").graph_ids() == (0,)
    for number, name in enumerate(("L1_tensor", "wrong_L1_tensor")):
        shutil.copytree(place / name / "step0", tmp_path / f"step{number}")
    dump = Dump(tmp_path)
    assert dump.graph_ids() == (0, 1)
    assert [each.graph_id for each in dump.step_dirs()] == [0, 1]


def test_a_step_and_a_rank_can_be_given_alone(place: Path, tmp_path: Path) -> None:
    step = place / "mix_statistics" / "step1"
    assert Dump(step).steps() == (1,)
    assert Dump(step / "proc1234").steps() == (1,)
    for rank in (0, 3):
        shutil.copytree(step / "proc1234", tmp_path / "step5" / f"rank{rank}")
    shutil.copytree(step / "proc1234", tmp_path / "step5" / "proc99")
    dump = Dump(tmp_path)
    assert (dump.ranks, dump.steps()) == ((0, 3), (5,))


def test_both_parts_of_a_jit_dump_are_offered(place: Path, tmp_path: Path) -> None:
    for name in ("graph", "pynative"):
        shutil.copytree(place / "L0_statistics", tmp_path / name)
    with pytest.raises(DumpError, match=r"holds 2 dumps of msprobe: graph, pynative; give one"):
        Dump(tmp_path)


def test_a_document_that_was_cut_off_is_named_and_the_rest_is_read(
    place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place / "L1_tensor", tmp_path / "dump")
    document = tmp_path / "dump" / "step0" / "proc1234" / "dump.json"
    document.write_bytes(document.read_bytes()[:2000])
    missing = next((tmp_path / "dump" / "step1").rglob("Functional.linear.0.forward.output.0.pt"))
    missing.write_bytes(b"")
    dump = Dump(tmp_path / "dump")
    assert dump.steps() == (1,)
    assert [problem.path for problem in dump.check()] == [document, missing]
    (tmp_path / "dump" / "step1" / "proc1234" / "dump.json").write_text("[]")
    with pytest.raises(StopIteration):
        next(Dump(tmp_path / "dump").tensors())


def test_a_file_name_never_leaves_the_directory(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "L1_tensor", tmp_path / "dump")
    document = tmp_path / "dump" / "step0" / "proc1234" / "dump.json"
    name = "Functional.linear.0.forward.output.0.pt"
    document.write_text(document.read_text().replace(name, "../../../../secret.pt"))
    (record,) = (
        each
        for each in Dump(tmp_path / "dump").tensors(step=0, io="output")
        if each.key.op == "Default/Functional.linear.0.forward"
    )
    assert record.path is None


def test_npy_files_of_mindspore_are_read(place: Path, tmp_path: Path) -> None:
    """msprobe saves ``.npy`` files for MindSpore, and calls modules cells."""
    directory = tmp_path / "step0" / "rank0"
    (directory / "dump_tensor_data").mkdir(parents=True)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    file = "Cell.fc.Dense.forward.0.output.0.npy"
    np.save(directory / "dump_tensor_data" / file, values)
    tensor = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3], "data_name": file}
    tensor |= {"Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4161984}
    data = {"Cell.fc.Dense.forward.0": {"input_args": [], "input_kwargs": {}, "output": [tensor]}}
    document = {"task": "tensor", "level": "L0", "framework": "mindspore", "data": data}
    (directory / "dump.json").write_text(json.dumps(document))
    (record,) = Dump(tmp_path).tensors()
    assert record.key.op == "Default/fc-Dense/Cell.fc.Dense.forward.0"
    np.testing.assert_array_equal(record.numpy(), values)


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("__add__", "add"),
        ("__radd__", "add"),
        ("__iadd__", "add_"),
        ("__truediv__", "div"),
        ("__invert__", "invert"),
        ("relu_", "relu_"),
        ("conv2d.Conv2d", "Conv2d"),
    ],
)
def test_operators_are_called_as_their_functions(api: str, kind: str) -> None:
    assert op_type(api) == kind
