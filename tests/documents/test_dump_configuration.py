"""The configurations of the documents, key by key, with what they leave on the disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.documents.alexnet import (
    ASYNCHRONOUS,
    CONFIGURATION,
    CONV3,
    SYNCHRONOUS,
    dump,
    file_of,
)

import sonde
from sonde.dump.reader import Dump


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven steps with the document's own configuration, of which 0, 5 and 6 are chosen."""
    return dump(tmp_path_factory.mktemp("document") / "absolute_path", steps=7)


def names_in(directory: Path) -> set[str]:
    """The types of the ops that have files in a directory of a dump."""
    return {file.name.partition(".")[0] for file in directory.rglob("*.npy")}


@pytest.mark.document(120, says="`net_name`: the customized net name", how="key `net_name`")
def test_the_net_name_is_a_directory_of_the_dump(root: Path, tmp_path: Path) -> None:
    assert (root / "ResNet50").is_dir()
    assert (dump(tmp_path / "out", net_name="LeNet5") / "LeNet5").is_dir()


@pytest.mark.document(
    121,
    says='`iteration` "0|5-8|100-120": the 1st, 6th to 9th, and 101st to 121st steps',
    how="key `iteration`, `--dump-steps '0|5-8|100-120'`; steps are counted from 0",
)
def test_the_steps_that_iteration_names_are_dumped_and_no_others(root: Path) -> None:
    assert Dump(root).steps() == (0, 5, 6)


@pytest.mark.document(
    110,
    says="`op_debug_mode` 0: save all operators or specified operators",
    how="the same, and the default",
)
@pytest.mark.document(
    115,
    says="`dump_mode` 0: all operator data in the network; 1: the operator data specified in "
    "`kernels`",
    how="key `dump_mode`; `--dump-ops NAME` chooses ops on the command line",
)
def test_all_operators_are_dumped_or_those_that_kernels_names(root: Path, tmp_path: Path) -> None:
    every = {record.key.op for record in Dump(root).tensors(step=0)}
    assert {op.name for op in Dump(root).graph(0).ops} <= every
    some = dump(tmp_path / "some", dump_mode=1, kernels=[CONV3])
    assert {record.key.op for record in Dump(some).tensors()} == {CONV3}


@pytest.mark.document(
    108,
    says="Conditional Dump: Specify Operator Name, Specify Iteration, Specify Device, set_dump",
    how="keys `kernels`, `iteration`, `support_device`; `--dump-ops`, `--dump-steps`; "
    "`sonde.set_dump`",
)
def test_conditions_of_a_dump_hold_together(tmp_path: Path) -> None:
    found = dump(
        tmp_path / "some", steps=3, dump_mode=1, kernels=[CONV3], iteration="1", support_device=[0]
    )
    assert {(r.key.step, r.key.op, r.rank) for r in Dump(found).tensors()} == {(1, CONV3, 0)}


@pytest.mark.document(
    127,
    says="`input_output` 0: dump input and output of kernel, 1: dump input, 2: dump output",
    how="key `input_output`",
)
@pytest.mark.parametrize(
    ("value", "expected"), [(0, {"input", "output"}), (1, {"input"}), (2, {"output"})]
)
def test_input_output_chooses_inputs_or_outputs(
    value: int, expected: set[str], tmp_path: Path
) -> None:
    found = dump(tmp_path / "some", dump_mode=1, kernels=[CONV3], input_output=value)
    assert {record.key.io for record in Dump(found).tensors()} == expected


@pytest.mark.document(
    133,
    says="`support_device`: specify only the device Id that needs to be dumped",
    how="key `support_device`: the ranks; each has a directory rank_{rank_id}",
)
def test_a_rank_that_support_device_names_is_dumped_to_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        dump(tmp_path / "out", support_device=[1])
    assert names_in(tmp_path / "out" / "rank_1")
    assert not names_in(tmp_path / "out" / "rank_0")


TYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "complex64",
    "complex128",
]


@pytest.mark.document(
    166,
    says="an operator of type `bfloat16` saved to the `npy` file is converted to `float32`",
    how="the same; the file name keeps BFloat16",
)
@pytest.mark.document(
    168,
    says="data with type of bool, int, int8, in16, int32, int64, uint, uint8, ..., double, "
    "complex64 and complex128",
    how="all of them, and float8",
)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_of_the_document_is_saved(name: str, tmp_path: Path) -> None:
    settings = json.loads(CONFIGURATION)
    settings["common_dump_settings"]["path"] = str(tmp_path / "out")
    (tmp_path / "dump.json").write_text(json.dumps(settings))
    values = torch.tensor([0, 1, 3]).to(getattr(torch, name))
    with sonde.capture(tmp_path / "dump.json", step_by="manual"):
        values.view(3, 1)
        sonde.step()
    file = file_of(tmp_path / "out" / "rank_0" / "ResNet50" / "0" / "0", "view-op0.*.output.0")
    label = {"bfloat16": "BFloat16", "uint8": "UInt8"}.get(name, name.capitalize())
    assert f".DefaultFormat.{label}".lower() in file.name.lower()
    saved = np.load(file)
    assert saved.dtype == ("float32" if name == "bfloat16" else name)
    assert np.array_equal(saved[:, 0], np.array([0, 1, 3]).astype(saved.dtype))


@pytest.mark.document(
    176,
    says="`Conv2D.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat.float16.npy`",
    how="read by `sonde show`: names without scope, and types in small letters or left out",
)
@pytest.mark.parametrize("label", [".float16", ""])
def test_the_file_name_in_the_document_is_read(label: str, tmp_path: Path) -> None:
    directory = tmp_path / "rank_0" / "ResNet50" / "0" / "3"
    directory.mkdir(parents=True)
    name = f"Conv2D.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat{label}.npy"
    np.save(directory / name, np.ones((2, 2), np.float16))
    (record,) = Dump(tmp_path).tensors()
    assert (str(record.key), record.op_type, record.dtype) == (
        "Conv2D-op12:output.0@3",
        "Conv2D",
        "float16",
    )


@pytest.mark.document(
    177,
    says="a second run with the same `path`",
    how="the earlier dump is moved to `rank_{rank_id}.previous-1`, and a line says so",
)
def test_a_second_run_into_the_same_path_keeps_the_first_dump(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = {file.name for file in dump(tmp_path / "out").rglob("*.npy")}
    dump(tmp_path / "out", dump_mode=1, kernels=[CONV3])
    kept = tmp_path / "out" / "rank_0.previous-1"
    assert {file.name for file in kept.rglob("*.npy")} == first
    assert names_in(tmp_path / "out" / "rank_0") == {"convolution"}
    assert "rank_0.previous-1" in capfd.readouterr().err


# ------------------------------------------------------------ the older document's configurations


@pytest.fixture(scope="module")
def synchronous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dump(tmp_path_factory.mktemp("older") / "sync", steps=2, text=SYNCHRONOUS)


@pytest.mark.document(
    36,
    says="Synchronous Dump: create dump json file `data_dump.json`",
    how="the document's file works with `sonde run --dump data_dump.json train.py`",
)
@pytest.mark.document(
    37,
    says="`dump_mode`: 0: dump all kernels in graph, 1: dump kernels in kernels list",
    how="the same key",
)
@pytest.mark.document(
    38,
    says="`iteration`: 0, a number",
    how="a plain number is that step",
)
def test_the_synchronous_configuration_dumps_the_step_that_it_names(
    synchronous: Path, tmp_path: Path
) -> None:
    every = Dump(synchronous)
    assert every.steps() == (0,)
    ops = {record.key.op for record in every.tensors()}
    assert {op.name for op in every.graph(0).ops} <= ops
    some = dump(tmp_path / "some", text=SYNCHRONOUS, dump_mode=1, kernels=[CONV3])
    assert {record.key.op for record in Dump(some).tensors()} == {CONV3}


@pytest.mark.document(
    39,
    says="`kernels`: full name of kernel, get full name of kernel from `ir` file",
    how="the same; a name from `graphs/ms_output_trace_code_graph_{graph_id}.ir`",
)
@pytest.mark.document(
    46,
    says="`context.set_context(save_graphs=True)` to get the names of kernels",
    how="no switch is needed: every dump writes the `.ir` file",
)
def test_a_name_from_the_ir_file_chooses_its_kernel(synchronous: Path, tmp_path: Path) -> None:
    text = (synchronous / "graphs" / "ms_output_trace_code_graph_0.ir").read_text()
    names = [
        line.partition("(")[2].removesuffix(")")
        for line in text.splitlines()
        if "Fullname with scope" in line
    ]
    pool = next(name for name in names if "max_pool2d" in name)
    some = dump(tmp_path / "some", text=SYNCHRONOUS, dump_mode=1, kernels=[pool])
    assert {record.key.op for record in Dump(some).tensors()} == {pool}


@pytest.mark.document(
    40,
    says="`support_device`: specify specific device ids to dump specific device data",
    how="the same key: the ranks that are dumped",
)
def test_the_devices_of_the_older_configuration_are_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    dump(tmp_path / "here", text=SYNCHRONOUS)
    dump(tmp_path / "elsewhere", text=SYNCHRONOUS, support_device=[0])
    assert names_in(tmp_path / "here" / "rank_1")
    assert not names_in(tmp_path / "elsewhere")


@pytest.mark.document(
    41,
    says="`e2e_dump_settings`: `enable` synchronous dump, `trans_flag`: transform the device data "
    "format into NCHW",
    how="the same keys; `trans_flag` false keeps `channels_last` tensors in NHWC",
)
@pytest.mark.document(
    49,
    says="Asynchronous Dump: `async_dump_settings.enable`",
    how="the document's file is accepted; files are written while the training goes on",
)
@pytest.mark.document(
    51,
    says="Asynchronous Dump only supports graph mode on Ascend",
    how="CPU and GPU; `--dump-memory SIZE` bounds the memory of what waits for the disk",
)
@pytest.mark.parametrize(("text", "form"), [(SYNCHRONOUS, "NHWC"), (ASYNCHRONOUS, "DefaultFormat")])
def test_both_older_configurations_dump_the_values_of_the_ops(
    text: str, form: str, tmp_path: Path
) -> None:
    settings = json.loads(text)
    settings["common_dump_settings"]["path"] = str(tmp_path / "out")
    (tmp_path / "data_dump.json").write_text(json.dumps(settings))
    images = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    with sonde.capture(tmp_path / "data_dump.json", step_by="manual"):
        doubled = images * 2
        sonde.step()
    file = file_of(tmp_path / "out" / "rank_0" / "ResNet50" / "0" / "0", "mul-op0.*.output.0")
    assert f".{form}." in file.name
    saved = np.load(file)
    expected = doubled.numpy()
    assert np.array_equal(saved, expected.transpose(0, 2, 3, 1) if form == "NHWC" else expected)


@pytest.mark.document(50)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_overflow_check_saves_the_ops_with_nan(number: int, tmp_path: Path) -> None:
    settings = json.loads(ASYNCHRONOUS)
    settings["common_dump_settings"]["path"] = str(tmp_path / "out")
    settings["async_dump_settings"]["op_debug_mode"] = number
    (tmp_path / "data_dump.json").write_text(json.dumps(settings))
    with sonde.capture(tmp_path / "data_dump.json", step_by="manual"):
        (torch.ones(2) - 2).sqrt().mul(3)
        sonde.step()
    assert names_in(tmp_path / "out" / "rank_0") == {"sqrt", "mul"}
