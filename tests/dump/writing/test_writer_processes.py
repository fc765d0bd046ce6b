"""The background writer and the life of a process: forks, kills, limits, full disks, exits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.dump.writing.writers import IMPLEMENTATIONS, QUEUEING, names_in, parameters

import sonde
from sonde.dump.layout import is_partial

PRELUDE = """
import json, os, signal, sys, threading
from pathlib import Path
from sonde.dump.writing.python_writer import PythonWriter

def opened(threads, budget):
    if sys.argv[1] == "python":
        return PythonWriter(threads, budget)
    from sonde.dump.writing import _writer
    return _writer.Writer(threads, budget, anonymous_files=sys.argv[1] == "native")

here = Path(sys.argv[2])

def buffer(size, value):
    import ctypes
    block = ctypes.create_string_buffer(bytes([value]) * size, size)
    return ctypes.addressof(block), size, block
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    source = Path(sonde.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + code, *arguments],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *arguments: str) -> str:
    """What the program prints; it must end well, in time, and say nothing else."""
    with start(code, *arguments) as process:
        try:
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    return out


@pytest.fixture(params=parameters(*IMPLEMENTATIONS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=parameters(*QUEUEING))
def queueing_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_in_a_forked_child_the_writer_does_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    report = json.loads(
        run(
            """
writer = opened(2, 10**6)
for number in range(200):
    writer.write(str(here / str(number)), b"head", *buffer(5000, 1))
child = os.fork()
if child == 0:
    answers = [
        writer.write(str(here / "child"), b"", *buffer(10**7, 2)),
        writer.write_text(str(here / "child"), b""),
        writer.link(1, str(here / "child")),
        writer.barrier_rename(str(here), str(here) + ".moved"),
        writer.own(1), writer.wait(10**6), writer.wait_all(), writer.pending_bytes,
        writer.written_bytes, writer.error, writer.close(), writer.close(),
    ]
    del writer
    (here.parent / "answers").write_text(json.dumps(answers))
    sys.exit()
_, status = os.waitpid(child, 0)
for number in range(200, 300):
    writer.write(str(here / str(number)), b"head", *buffer(5000, 1))
writer.close()
print(json.dumps([status, writer.written_bytes, writer.error]))
""",
            name,
            str(tmp_path / "dump"),
        )
    )
    assert report == [0, 300 * 5004, None]
    assert json.loads((tmp_path / "answers").read_text()) == [
        *(0, 0, True, None, None, None, None),
        *(0, 0, None, None, None),
    ]
    contents = b"head" + b"\1" * 5000
    files = list((tmp_path / "dump").iterdir())
    assert len(files) == 300
    assert all(file.read_bytes() == contents for file in files)


STANDSTILL = """
pipe = Path(sys.argv[3]) / "pipe"
job = writer.write_text(str(pipe), b"")
writer.wait(job)
pipe.unlink()
os.mkfifo(pipe)
writer.link(job, str(here / "gate"))  # A copy, from a pipe that no process writes to.
"""


def test_ctrl_c_ends_a_write_that_waits_for_the_budget(
    queueing_name: str, tmp_path: Path, elsewhere: Path
) -> None:
    out = run(
        f"""
writer = opened(1, 1000)
{STANDSTILL}
writer.write(str(here / "a"), b"", *buffer(1000, 1))
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    writer.write(str(here / "b"), b"", *buffer(1000, 1))
except KeyboardInterrupt:
    print("interrupted", writer.pending_bytes)
os.close(os.open(pipe, os.O_WRONLY))
writer.close()
""",
        queueing_name,
        str(tmp_path),
        str(elsewhere),
    )
    assert out == "interrupted 1000\n"
    assert names_in(tmp_path) == ["a", "gate"]


def test_a_killed_process_leaves_whole_files_only(name: str, tmp_path: Path) -> None:
    moments = random.Random(name)
    sizes = [0, 100, 5_000, 200_000, 3_000_000]
    files = 0
    for number in range(20):
        directory = tmp_path / str(number)
        directory.mkdir()
        with start(
            """
writer = opened(2, 10**8)
sizes = json.loads(sys.argv[3])
blocks = [buffer(size, 7) for size in sizes]
print("started", flush=True)
for step in range(10**6):
    growing = here / f"growing{step}"
    growing.mkdir()
    for number, block in enumerate(blocks):
        job = writer.write(str(growing / f"{number}"), b"", *block)
        writer.link(job, str(growing / f"{number}.link"))
    writer.barrier_rename(str(growing), str(here / f"done{step}"))
""",
            name,
            str(directory),
            json.dumps(sizes),
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.04))
            process.send_signal(signal.SIGKILL)
        for path in directory.rglob("*"):
            if path.is_file() and not is_partial(path.name):
                files += 1
                assert path.read_bytes() == b"\7" * sizes[int(path.name[0])]
        for done in directory.glob("done*"):
            assert len(names_in(done)) == 2 * len(sizes)
        if name == "native":
            assert not any(is_partial(path.name) for path in directory.rglob("*"))
    assert files > 20


@pytest.mark.parametrize("ending", ["", "del writer", "sys.exit()", "os._exit(0)"])
def test_the_interpreter_ends_without_close(ending: str, name: str, tmp_path: Path) -> None:
    run(
        f"""
writer = opened(2, 10**9)
for number in range(100):
    writer.write(str(here / str(number)), b"", *buffer(1_000_000, 7))
{ending}
""",
        name,
        str(tmp_path),
    )
    whole = [name for name in names_in(tmp_path) if not is_partial(name)]
    assert all((tmp_path / each).stat().st_size == 1_000_000 for each in whole)


def test_the_interpreter_ends_although_the_disk_blocks(
    queueing_name: str, tmp_path: Path, elsewhere: Path
) -> None:
    run(
        f"""
writer = opened(1, 10**9)
{STANDSTILL}
writer.write(str(here / "file"), b"", *buffer(1000, 7))
""",
        queueing_name,
        str(tmp_path),
        str(elsewhere),
    )
    assert not (tmp_path / "file").exists()


FAILING = """
import errno
writer = opened(2, 10**9)
for number in range(40):
    writer.write(str(here / str(number)), b"", *buffer(200_000, 7))
writer.wait_all()
late = writer.write(str(here / "late"), b"", *buffer(10, 7))
writer.wait(late)
writer.close()
print(errno.errorcode[writer.error.errno], writer.error.filename, writer.written_bytes)
"""


def test_a_file_beyond_the_limit_of_the_process_is_an_error(name: str, tmp_path: Path) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))\n"
    kind, filename, written = run(limit + FAILING, name, str(tmp_path)).split()
    assert kind == "EFBIG"
    assert Path(filename).parent == tmp_path
    assert written == "0"
    assert names_in(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_ends_the_writing(name: str, small_disk: Path) -> None:
    kind, filename, written = run(FAILING, name, str(small_disk)).split()
    assert kind == "ENOSPC"
    names = names_in(small_disk)
    assert len(names) * 200_000 == int(written) < 40 * 200_000
    assert Path(filename).name not in names
    assert all((small_disk / each).read_bytes() == b"\7" * 200_000 for each in names)
