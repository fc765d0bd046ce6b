"""Directories of captured steps: whole or not there, and found by what users name."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.replay.errors import ReplayError
from sonde.replay.layout import MANIFEST, captured_steps, find_step, write_directory


def write_one(place: Path) -> None:
    (place / MANIFEST).write_text("{}")


def test_a_step_appears_under_its_name(tmp_path: Path) -> None:
    place = write_directory(tmp_path / "steps", 412, 3, write_one)
    assert place.path == tmp_path / "steps" / "step_412.rank_3"
    assert [each.name for each in place.path.iterdir()] == [MANIFEST]
    assert captured_steps(tmp_path / "steps") == [place]


def test_a_second_capture_of_a_step_gets_a_number(tmp_path: Path) -> None:
    names = [write_directory(tmp_path, 5, 0, write_one).path.name for _ in range(3)]
    assert names == ["step_5.rank_0", "step_5.rank_0.1", "step_5.rank_0.2"]
    assert [each.repetition for each in captured_steps(tmp_path)] == [0, 1, 2]


def test_a_file_of_that_name_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "step_5.rank_0").write_text("mine")
    assert write_directory(tmp_path, 5, 0, write_one).path.name == "step_5.rank_0.1"
    assert (tmp_path / "step_5.rank_0").read_text() == "mine"


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    def fill(place: Path) -> None:
        write_one(place)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_directory(tmp_path, 1, 0, fill)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from sonde.replay.layout import write_directory
def write(place):
    (place / "weights.safetensors").write_bytes(b"x" * 100)
    os.kill(os.getpid(), signal.SIGKILL)
write_directory(Path(sys.argv[1]), 1, 0, write)
"""


def test_a_killed_process_leaves_no_step_and_the_next_capture_cleans_up(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".step_1.rank_0.")
    assert captured_steps(tmp_path) == []
    write_directory(tmp_path, 2, 0, write_one)
    assert os.listdir(tmp_path) == ["step_2.rank_0"]


def test_steps_are_sorted_by_number_and_other_names_are_ignored(tmp_path: Path) -> None:
    for step, rank in ((10, 0), (9, 1), (9, 0)):
        write_directory(tmp_path, step, rank, write_one)
    (tmp_path / "step_1.rank_0").mkdir()  # without a manifest: not a step
    (tmp_path / "step_x.rank_0").mkdir()
    assert [(each.step, each.rank) for each in captured_steps(tmp_path)] == [
        (9, 0),
        (9, 1),
        (10, 0),
    ]


def test_a_directory_with_one_step_stands_for_it(tmp_path: Path) -> None:
    place = write_directory(tmp_path, 7, 0, write_one)
    assert find_step(tmp_path) == place.path == find_step(place.path)


@pytest.mark.parametrize(
    ("steps", "named", "slug"),
    [((), "missing", "step-none"), ((), ".", "step-none"), ((3, 4), ".", "step-which")],
)
def test_what_is_not_one_step_is_refused(
    tmp_path: Path, steps: tuple[int, ...], named: str, slug: str
) -> None:
    for step in steps:
        write_directory(tmp_path, step, 0, write_one)
    with pytest.raises(ReplayError) as error:
        find_step(tmp_path / named)
    assert error.value.slug == slug
    assert all(f"step_{step}.rank_0" in error.value.message for step in steps)
