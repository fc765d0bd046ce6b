"""``sonde convert``: dumps of old formats become dumps that show, view and compare read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.dump.old_formats.made_old_dumps import nc1hwc0, raw_bytes, tensor_message, write_bin
from tests.dump.sample_dumps import DATA

from sonde.cli.main import main
from sonde.dump.reader import Dump

CONV = "Default/network-WithLossCell/_backbone-AlexNet/conv3-Conv2d/Conv2D-op107"
LOG = "Default/network-WithLossCell/_backbone-GateNet/Log-op0"


def run(*words: str | Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def old_dump(tmp_path: Path) -> Path:
    """Two devices and two iterations of MindSpore 1.1: NET/device_N/iteration_N/*.bin."""
    for device in (0, 1):
        for iteration in (0, 3):
            place = tmp_path / "old" / "AlexNet" / f"device_{device}" / f"iteration_{iteration}"
            image = np.full((2, 3, 4, 4), iteration + device, np.float32)
            write_bin(place, CONV, "input", 0, image, format="NCHW")
            write_bin(place, CONV, "output", 0, nc1hwc0(image), format="NC1HWC0")
            write_bin(place, "conv3.weight", "output", 0, np.ones((3, 3), np.float16))
            write_bin(place, "Default/ReduceMean-op5", "output", 0, np.array(7.5, np.float32))
    (tmp_path / "old" / ".metadata").mkdir()
    (tmp_path / "old" / ".metadata" / "data_dump.json").write_text('{"common_dump_settings": {}}')
    return tmp_path / "old"


@pytest.mark.document(
    48,
    says="dumps of r1.1: `.bin` files, to be read with `numpy.fromfile`",
    how="`sonde convert DIR OUT` writes them as `.npy` files, which `show`, `view` and `compare` "
    "read; `sonde show DIR` says so",
)
def test_bin_files_of_r1_1_become_a_dump(
    old_dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    code, text, err = run("convert", old_dump, out, capsys=capsys)
    assert (code, err) == (0, "")
    assert text.startswith("converted 16 tensors (")
    assert "2 steps, 2 ranks" in text
    assert "in the layout of the device, because the other is not known: NC1HWC0" in text
    dump = Dump(out)
    assert (dump.ranks, dump.nets(), dump.steps()) == ((0, 1), ("AlexNet",), (0, 3))
    assert dump.problems == ()
    assert dump.writer() == "mindspore"
    assert dump.metadata().dump_config == {"common_dump_settings": {}}
    (image,) = dump.tensors(rank=1, step=3, op="conv2d", io="input")
    np.testing.assert_array_equal(image.numpy(), np.full((2, 3, 4, 4), 4, np.float32))
    (scalar,) = dump.tensors(rank=0, step=0, op="reducemean")
    assert (scalar.shape, scalar.single_number()) == ((), 7.5)
    assert {each.op_type for each in dump.tensors(rank=0, step=0)} == {
        "Conv2D",
        "Parameter",
        "ReduceMean",
    }
    code, text, _ = run("show", out, "--step", "3", "--rank", "1", capsys=capsys)
    assert code == 0
    assert "Conv2D-op107" in text
    _, text, _ = run("show", out, capsys=capsys)
    assert "graph_0.pb: not there; without a graph, scopes, edges and source lines" in text


def test_old_dumps_are_named_by_commands_that_do_not_read_them(
    old_dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["show", old_dump],
        ["view", "--check", old_dump],
        ["compare", old_dump, old_dump],
    ):
        code, _, err = run(*words, capsys=capsys)
        assert code == 2
        assert err == (
            f"sonde: {old_dump} holds no dump that Sonde reads: this looks like a synchronous dump "
            "of MindSpore 1.0 to 1.2 (.bin files); convert it: sonde convert "
            f"{old_dump} OUT [foreign-dump]\n"
        )


def old_copy_of(dump: Path, old: Path) -> None:
    """A dump by MindSpore 2.10 in the layout of 1.1, graph files included."""
    home = old / "GateNet" / "device_0"
    for name in ("graphs", "execution_order"):
        shutil.copytree(dump / "rank_0" / name, home / name)
    for record in Dump(dump).tensors(step=2):
        place = home / f"iteration_{record.key.step}"
        if record.dtype in ("float32", "int32"):
            write_bin(
                place, record.key.op, record.key.io, record.key.slot, np.array(record.numpy())
            )


def test_a_converted_dump_with_graphs_is_checked_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The origin of NaN and the pairs of ops are the same as in the dump it was made from."""
    old_copy_of(DATA / "nan_log" / "dump", tmp_path / "old")
    out = tmp_path / "new"
    assert run("convert", tmp_path / "old", out, capsys=capsys)[0] == 0
    code, text, _ = run("view", "--check", out, capsys=capsys)
    assert code == 1
    assert f"{LOG} output.0  <- makes it" in text
    code, text, _ = run("compare", out, DATA / "nan_log", "--steps", "2", capsys=capsys)
    assert code == 0
    assert text.startswith("aligned")


@pytest.mark.document(
    53,
    says="`dump_data_conversion.pyc`, `msaccucmp.pyc`: convert Ascend's dump files to numpy",
    how="`sonde convert DIR OUT`, also for a single file; layouts of the device become NCHW",
)
@pytest.mark.parametrize("layout", ["0/ResNet50_graph_1/1/4", "rank_0/ResNet50/1/4"])
def test_raw_files_of_ascend_become_a_dump(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = np.random.default_rng(0).normal(size=(2, 20, 3, 3)).astype(np.float16)
    stored = nc1hwc0(image)
    message = tensor_message("input", stored, format="NC1HWC0", original=image.shape)
    total = np.arange(5, dtype=np.int64)
    place = tmp_path / "ascend" / layout
    place.mkdir(parents=True)
    (place / "Conv2D.Default_conv1_Conv2D-op12.3.0.1612439563338020").write_bytes(
        raw_bytes([(stored, message)], [(total, tensor_message("output", total))])
    )
    out = tmp_path / "new"
    code, _, err = run("show", tmp_path / "ascend", capsys=capsys)
    assert code == 2
    assert "a raw dump of an Ascend device (protobuf); convert it: sonde convert" in err
    code, text, err = run("convert", tmp_path / "ascend", out, capsys=capsys)
    assert (code, err) == (0, "")
    assert "converted 2 tensors" in text
    dump = Dump(out)
    assert (dump.ranks, dump.nets(), dump.steps(), dump.graph_ids()) == (
        (0,),
        ("ResNet50",),
        (4,),
        (1,),
    )
    (found,) = dump.tensors(io="input")
    np.testing.assert_array_equal(found.numpy(), image)
    assert (found.format, found.op_type, found.dtype) == ("NCHW", "Conv2D", "float16")
    (found,) = dump.tensors(io="output")
    np.testing.assert_array_equal(found.numpy(), total)


@pytest.mark.document(53)
def test_one_raw_file_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.ones(3, np.float32)
    file = tmp_path / "Add.Default_Add-op1.2.161243956333802"
    file.write_bytes(raw_bytes([], [(values, tensor_message("output", values))]))
    assert run("convert", file, tmp_path / "new", capsys=capsys)[0] == 0
    (found,) = Dump(tmp_path / "new").tensors()
    np.testing.assert_array_equal(found.numpy(), values)


def test_a_damaged_file_is_named_and_the_others_are_converted(
    old_dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (damaged,) = old_dump.glob("*/device_0/iteration_0/conv3*")
    damaged.write_bytes(b"123")
    code, text, err = run("convert", old_dump, tmp_path / "new", capsys=capsys)
    assert code == 2
    assert text.startswith("converted 15 tensors")
    assert err == (
        f"sonde: error: {damaged}: has 3 bytes, but its name says Float16 of shape [3, 3], which "
        "is 18\n"
    )


def test_mistakes_are_one_line(
    old_dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, expected in (
        ([tmp_path / "none", tmp_path / "new"], "none does not exist [no-dump]"),
        ([old_dump, old_dump], "exists already; give a directory that does not exist"),
        ([DATA / "nan_log", tmp_path / "new"], "is a dump that Sonde reads as it is"),
        ([Path(__file__).parents[1] / "docs", tmp_path / "new"], "holds neither .bin files"),
    ):
        code, _, err = run("convert", *words, capsys=capsys)
        assert code == 2
        assert expected in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()
