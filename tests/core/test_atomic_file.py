"""Files are replaced completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sonde.core.atomic_file import replace_file, replace_file_durably, write_whole


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

    def write(partial: Path) -> None:
        partial.write_text("half")
        assert path.read_text() == "old"
        assert partial.name.startswith(".")
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
