"""Damaged and hostile files on the command line: one line, exit code 2, no traceback, in time."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.dump.made import small_dump

from sonde.cli.main import main

NOT_UTF8 = b'{"watchpoints": [{"name": "\xff\xfe"}]}'


def npy(header: str) -> bytes:
    """The start of an ``.npy`` file with this header, and 16 bytes of data."""
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(16)


def npz(content: bytes, *, compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("w.npy", content)
    return stream.getvalue()


def bomb() -> bytes:
    """An archive of a few thousand bytes that claims 400 MB."""
    content = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (100000000,), }")
    content += bytes(1_000_000)
    data = npz(content, compression=zipfile.ZIP_DEFLATED)
    return data.replace(struct.pack("<I", len(content)), struct.pack("<I", 400_000_200))


def array_bytes() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(4, np.float32))
    return stream.getvalue()


CHECKPOINTS = {
    "a damaged header.npz": npz(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), ")),
    "a header that is no text.npz": npz(npy("\xff\x00'''")),
    "a huge shape.npz": npz(
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,), }")
    ),
    "a bomb.npz": bomb(),
    "cut off.npz": npz(array_bytes())[:-30],
    "cut off.pt": npz(array_bytes())[:-30],
    "a name that is no text.safetensors": struct.pack("<Q", 8) + b'{"\xff\xfe":1}',
    "no proto.ckpt": b"\xff" * 64,
}


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1, said
    assert said.startswith("sonde: ")
    assert said.endswith("]\n")
    return said


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_damaged_checkpoint_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(CHECKPOINTS[name])
    said = refused(["ckpt", "check", str(path)], capsys)
    assert str(path) in said
    assert "[checkpoint-damaged]" in said


def test_a_watchpoint_file_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, script = tmp_path / "watch.json", tmp_path / "train.py"
    path.write_bytes(NOT_UTF8)
    script.write_text("")
    dump = small_dump(tmp_path / "dump").root
    for words in (
        ["view", str(dump), "--check", "--load", str(path)],
        ["debug", "--no-open", "--watch", str(path), str(script)],
    ):
        said = refused(words, capsys)
        assert str(path) in said
        assert "[watchpoint-file]" in said


@pytest.mark.parametrize(
    "data",
    [
        b"command: \xff\xfe",
        b"parameters: " + b"[" * 100_000,
        b'command: "\\UFFFFFFFF"',
        b"command: \x00",
        b"a: &a [*a]",
    ],
    ids=["not UTF-8", "deep", "no such character", "NUL", "contains itself"],
)
def test_a_search_that_is_no_yaml_is_refused(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "search.yaml"
    path.write_bytes(data)
    assert main(["tune", str(path), "--check"]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert "Traceback" not in said
    assert all(line.startswith("sonde: ") for line in said.splitlines())


@pytest.mark.parametrize("data", [b"\xff{}", b"[" * 200_000, b"9" * 5000], ids=range(3))
def test_settings_that_are_no_json_are_refused(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, script = tmp_path / "dump.json", tmp_path / "train.py"
    path.write_bytes(data)
    script.write_text("")
    assert str(path) in refused(["run", "--dump", str(path), str(script)], capsys)


def test_a_device_in_place_of_a_small_file_is_not_read_into_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    dump = small_dump(tmp_path / "dump").root
    for words in (
        ["run", "--dump", "/dev/zero", str(script)],
        ["view", str(dump), "--check", "--load", "/dev/zero"],
        ["tune", "/dev/zero", "--check"],
    ):
        assert "longer than 32 MB" in refused(words, capsys)
