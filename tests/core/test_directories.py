"""Directories are made, whatever a signal handler of the program raises meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from sonde.core.files import directories
from sonde.core.files.directories import make_directory


def test_a_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c"
    for _ in range(2):
        make_directory(path, mode=0o700)
        assert path.is_dir()
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o077


@pytest.mark.parametrize("name", ["file", "file/below", "nowhere"])
def test_what_is_no_directory_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with pytest.raises(OSError, match=name.replace("/", ".")):
        make_directory(tmp_path / name)


def test_a_time_out_of_the_program_is_not_taken_for_a_directory_that_is_there(
    tmp_path: Path,
) -> None:
    def profiler(frame: FrameType, event: str, _: object) -> None:
        if event == "c_return" and frame.f_code.co_filename == directories.__file__:
            raise TimeoutError("of the program")

    def make(path: Path) -> None:
        sys.setprofile(profiler)  # Raising removes it.
        make_directory(path)

    for path in (tmp_path, tmp_path / "new"):
        with pytest.raises(TimeoutError, match="of the program"):
            make(path)
    assert (tmp_path / "new").is_dir()
