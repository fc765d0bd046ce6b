"""What a dump leaves when its process is killed, its disk fills or its directory vanishes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.running import PROGRAMS, bare, environment
from tests.warm_python.starting import warm_python

from sonde.dump.reader import Dump

KILLS = 50


def all_files_are_whole(path: Path) -> int:
    count = 0
    for file in path.rglob("*.npy"):
        np.load(file)  # raises if a byte is missing
        count += 1
    return count


def wait_for_files(directory: Path, count: int) -> None:
    """Until so many files are written; the writer goes on, so that any moment may come."""
    while sum(1 for _ in directory.rglob("*.npy")) < count:
        os.sched_yield()


def test_a_process_killed_at_any_moment_leaves_whole_files_and_a_dump_that_opens(
    tmp_path: Path,
) -> None:
    victims = subprocess.Popen(
        [warm_python(), str(PROGRAMS / "victims.py"), str(tmp_path), str(KILLS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert victims.stdin is not None
    assert victims.stdout is not None
    moments = random.Random(2)
    for number in range(KILLS):
        child = int(victims.stdout.readline())
        wait_for_files(tmp_path / str(number), moments.randrange(60))
        os.kill(child, signal.SIGKILL)
        victims.stdin.write("next\n")
        victims.stdin.flush()
    victims.communicate(timeout=60)
    assert victims.returncode == 0
    sizes = []
    for number in range(KILLS):
        directory = tmp_path / str(number)
        files = all_files_are_whole(directory)
        sizes.append(files)
        if not (directory / "rank_0").exists():
            continue
        dump = Dump(directory)
        assert dump.check() == ()
        assert sum(1 for _ in dump.tensors()) + sum(1 for _ in dump.constants()) == files
    assert sum(size > 0 for size in sizes) > KILLS // 2
    assert len(set(sizes)) > KILLS // 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def run_with_harm(words: list[str], harm: Callable[[], object]) -> tuple[str, str]:
    """Train, doing ``harm`` half-way; what was printed to stdout and stderr."""
    process = subprocess.Popen(
        [warm_python(), *words, str(PROGRAMS / "endless.py"), "12"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    before = []
    for line in process.stdout:
        before.append(line)
        if line == "halfway\n":  # It waits now: no more than this has been read.
            break
    else:
        raise AssertionError(process.communicate())
    harm()
    out, err = process.communicate("go on\n", timeout=120)
    assert process.returncode == 3
    return "".join(before) + out, err


def dumping_to(directory: Path) -> list[str]:
    return ["-m", "sonde", "run", "--dump-to", str(directory)]


@pytest.fixture(scope="module")
def undisturbed() -> str:
    out, _ = run_with_harm([], lambda: None)
    return out


def test_a_full_disk_stops_the_dump_with_one_message_and_nothing_else(
    small_disk: Path, undisturbed: str
) -> None:
    out, err = run_with_harm(dumping_to(small_disk / "out"), lambda: None)
    assert out == undisturbed
    stopped, end = err.strip().splitlines()
    assert "the dump stops here, training goes on: No space left on device" in stopped
    assert stopped.endswith("[dump-stopped]")
    assert end.startswith("sonde: dumped step")
    assert all_files_are_whole(small_disk) > 10
    assert Dump(small_disk / "out").check() == ()


def test_a_directory_that_vanishes_stops_the_dump_with_one_message_and_nothing_else(
    tmp_path: Path, undisturbed: str
) -> None:
    directory = tmp_path / "out"
    out, err = run_with_harm(dumping_to(directory), lambda: directory.rename(tmp_path / "away"))
    assert out == undisturbed
    stopped, *end = err.strip().splitlines()
    assert "the dump stops here, training goes on" in stopped
    # What was written before tells how far it came.
    assert all(line.startswith("sonde: dumped step") for line in end)
    assert len(end) <= 1


def test_memory_does_not_grow_with_what_is_dumped(tmp_path: Path) -> None:
    """400 MB of tensors through a budget of 4 MB: what grows is bounded, not a share of them."""
    alone = bare("hungry.py")
    words = ["-m", "sonde", "run", "--dump-to", str(tmp_path), "--dump-memory", "4M"]
    seen = subprocess.run(
        [warm_python(), *words, str(PROGRAMS / "hungry.py")],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert alone.returncode == seen.returncode == 0, seen.stderr
    written = sum(file.stat().st_size for file in tmp_path.rglob("*.npy"))
    assert written > 400e6
    grown = int(seen.stdout) - int(alone.stdout)
    assert grown < 100e6
