"""Ascend's raw dump files: tensors found in them, layouts of the device, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.dump.old_formats.made_old_dumps import (
    Array,
    fractal_nz,
    fractal_z,
    nc1hwc0,
    raw_bytes,
    tensor_message,
)

from sonde.core.errors import DumpError
from sonde.dump.old_formats.ascend_raw import is_raw_file, parse_raw_name, read_raw_file
from sonde.dump.old_formats.device_formats import to_host

NAME = "Add.Default_Add-op1.2.161243956333802"
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 2, 3], np.int32)


def whole(**options: bool) -> bytes:
    inputs = [
        (A, tensor_message("input", A, **options)),
        (B, tensor_message("input", B, **options)),
    ]
    total = A + B.astype(np.float32)
    return raw_bytes(inputs, [(total, tensor_message("output", total, **options))], **options)


@pytest.mark.parametrize("inline", [False, True])
def test_inputs_and_outputs_are_found_in_a_file(tmp_path: Path, inline: bool) -> None:
    path = tmp_path / NAME
    path.write_bytes(whole(inline=inline))
    found = read_raw_file(path)
    assert found.problems == []
    assert [(each.io, each.slot, each.dtype.name) for each in found.tensors] == [
        ("input", 0, "float32"),
        ("input", 1, "int32"),
        ("output", 0, "float32"),
    ]
    arrays = [each.array() for each in found.tensors]
    np.testing.assert_array_equal(arrays[0], A)
    np.testing.assert_array_equal(arrays[1], B)
    np.testing.assert_array_equal(arrays[2], A + B)
    assert {(each.op_type, each.op_name) for each in found.tensors} == {("Add", "Default_Add-op1")}


def test_the_name_with_a_stream_is_that_of_later_versions() -> None:
    older, later = parse_raw_name(NAME), parse_raw_name("Add.Default_Add-op1.2.7.1612439563338020")
    assert older is not None
    assert (older.task, older.stream, older.timestamp) == (2, 0, 161243956333802)
    assert later is not None
    assert (later.task, later.stream, later.timestamp) == (2, 7, 1612439563338020)
    assert parse_raw_name("ms_output_trace_code_graph_0.pb") is None
    assert parse_raw_name("Conv2D.Default_Conv2D-op1.0.0.1612439563338020.output.0.ND.npy") is None


def test_the_full_name_in_the_file_is_preferred(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(raw_bytes([], [(A, tensor_message("output", A))], op_name="Default/Add-op1"))
    assert read_raw_file(path).tensors[0].op_name == "Default/Add-op1"


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0xC000], np.uint16)
    message = tensor_message("output", bits.view(np.float16), dtype=27)
    path = tmp_path / NAME
    path.write_bytes(raw_bytes([], [(bits, message)]))
    (found,) = read_raw_file(path).tensors
    np.testing.assert_array_equal(found.array(), np.array([1.0, -2.0], np.float32))


def test_a_type_that_numpy_lacks_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / NAME
    unknown = tensor_message("input", A, dtype=33)
    path.write_bytes(raw_bytes([(A, unknown)], [(B, tensor_message("output", B))]))
    found = read_raw_file(path)
    assert [each.io for each in found.tensors] == ["output"]
    assert found.problems == ["input 0: the element type 33 of Ascend has no counterpart in numpy"]
    np.testing.assert_array_equal(found.tensors[0].array(), B)


def test_a_file_cut_off_anywhere_is_refused_or_a_problem(tmp_path: Path) -> None:
    data = whole()
    path = tmp_path / NAME
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            found = read_raw_file(path)
        except DumpError:
            continue
        assert found.problems
    path.write_bytes(b"\xff" * 40)
    assert not is_raw_file(path)


@pytest.mark.parametrize(
    ("format", "device", "host"),
    [
        ("NC1HWC0", nc1hwc0, np.arange(2 * 20 * 3 * 2, dtype=np.float32).reshape(2, 20, 3, 2)),
        ("FRACTAL_Z", fractal_z, np.arange(18 * 5 * 3 * 3, dtype=np.float32).reshape(18, 5, 3, 3)),
        ("FRACTAL_NZ", fractal_nz, np.arange(20 * 33, dtype=np.float16).reshape(20, 33)),
    ],
)
def test_layouts_of_the_device_become_those_of_the_network(
    format: str, device: object, host: Array
) -> None:
    stored = device(host)  # type: ignore[operator]
    found = to_host(stored, format, host.shape)
    assert found is not None
    np.testing.assert_array_equal(found, host)
    assert to_host(stored, format, (7, 7, 7)) is None
    assert to_host(stored, "NHWC1C0", host.shape) is None
