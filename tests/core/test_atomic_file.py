"""Files are replaced completely or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest

from sonde.core.files.atomic_file import (
    partial_path,
    remove_stale_partials,
    replace_file,
    replace_file_durably,
    write_whole,
)


def test_text_and_bytes_replace_the_old_file_and_leave_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "größer")
    assert path.read_text("utf-8") == "größer"
    write_whole(path, b"\0\1")
    assert path.read_bytes() == b"\0\1"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("replace", [replace_file, replace_file_durably])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, replace: object) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(file: BinaryIO) -> None:
        file.write(b"half")
        assert path.read_text() == "old"
        assert Path(file.name).name.startswith(".")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(path, write)  # type: ignore[operator]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_of_255_bytes_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127 + "x")
    assert len(os.fsencode(path.name)) == 255
    write_whole(path, "text")
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "file", "text")


def test_partial_names_differ_each_time_and_those_of_dead_processes_are_removed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "net-1.ckpt"
    mine, other = partial_path(path), partial_path(path)
    assert mine != other
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = other.with_name(other.name.replace(f".{os.getpid()}-", f".{dead.pid}-"))
    mine.touch()
    left.touch()
    remove_stale_partials(tmp_path, "net")
    assert list(tmp_path.iterdir()) == [mine]


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    read, write = os.pipe()
    try:
        write_whole(Path(f"/dev/fd/{write}"), "text")
        assert os.read(read, 10) == b"text"
    finally:
        os.close(read)
        os.close(write)
    write_whole(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
    redirected = tmp_path / "redirected"
    with redirected.open("wb") as file:
        write_whole(Path(f"/dev/fd/{file.fileno()}"), "text")
    assert redirected.read_text() == "text"
