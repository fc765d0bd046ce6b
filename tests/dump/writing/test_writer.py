"""The background writer: complete files, held memory, the budget, the choice of the writer."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.dump.writing.writers import (
    GIGABYTE,
    IMPLEMENTATIONS,
    Gate,
    Open,
    Payload,
    names_in,
    native,
    needs_native,
    parameters,
)

from sonde.core.errors import UsageError
from sonde.dump.layout import is_partial
from sonde.dump.writing.python_writer import PythonWriter
from sonde.dump.writing.writer import open_writer


def test_files_of_all_sizes_are_the_header_and_the_bytes(opened: Open, tmp_path: Path) -> None:
    writer = opened(2, GIGABYTE)
    random = np.random.default_rng(0)
    sizes = [0, 1, 127, 4096, 131_071, 131_072, 1_000_003, 10 << 20, *range(1000, 1100)]
    expected = {}
    for number, size in enumerate(sizes):
        payload = Payload(random.bytes(size))
        header = b"h" * (number % 3)
        payload.write(writer, tmp_path / f"{number}.npy", header)
        expected[f"{number}.npy"] = header + payload.data
    writer.wait_all()
    assert writer.error is None
    assert {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)} == expected
    assert writer.written_bytes == sum(map(len, expected.values()))


def test_an_empty_file_needs_no_address(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, 1)
    writer.wait(writer.write(str(tmp_path / "empty"), b"", 0, 0, None))
    assert (tmp_path / "empty").read_bytes() == b""


def test_files_get_the_mode_the_umask_leaves(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, GIGABYTE)
    before = os.umask(0o027)
    try:
        writer.wait(writer.write_text(str(tmp_path / "text"), b"text"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "text").stat().st_mode) == 0o640


def test_text_is_copied(queued: Open, tmp_path: Path, elsewhere: Path) -> None:
    writer = queued(1, GIGABYTE)
    gate = Gate(writer, tmp_path, elsewhere)
    text = bytes(bytearray(b"some text"))
    job = writer.write_text(str(tmp_path / "text"), text)
    del text
    gate.open()
    writer.wait(job)
    assert (tmp_path / "text").read_bytes() == b"some text"


def test_the_later_of_two_files_with_one_name_remains(opened: Open, tmp_path: Path) -> None:
    writer = opened(2, GIGABYTE)
    slow = Payload(b"x" * 3_000_000)
    for number in range(20):
        slow.write(writer, tmp_path / f"{number}")
        writer.write_text(str(tmp_path / f"{number}"), b"quick")
    writer.wait_all()
    assert writer.error is None
    assert all((tmp_path / f"{number}").read_bytes() == b"quick" for number in range(20))
    assert len(names_in(tmp_path)) == 20


def test_a_file_replaces_an_older_one(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"older and longer")
    writer = opened(1, GIGABYTE)
    writer.wait(writer.write_text(str(tmp_path / "file"), b"new"))
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names_in(tmp_path) == ["file"]


def test_a_reader_sees_whole_files_only(opened: Open, tmp_path: Path) -> None:
    writer = opened(3, GIGABYTE)
    payloads = [Payload(bytes([number]) * 200_000) for number in range(250)]
    broken: list[str] = []
    seen: set[str] = set()
    finished = threading.Event()

    def scan() -> None:
        while True:
            last_round = finished.is_set()
            for name in os.listdir(tmp_path):
                if not is_partial(name) and name not in seen:
                    if (tmp_path / name).read_bytes() != payloads[int(name)].data:
                        broken.append(name)
                    seen.add(name)
            if last_round:
                return

    scanner = threading.Thread(target=scan)
    scanner.start()
    for number, payload in enumerate(payloads):
        payload.write(writer, tmp_path / str(number))
    writer.wait_all()
    finished.set()
    scanner.join()
    assert broken == []
    assert len(seen) == 250
    assert not any(map(is_partial, names_in(tmp_path)))


def test_long_names_that_end_alike_are_two_files(opened: Open, tmp_path: Path) -> None:
    writer = opened(2, GIGABYTE)
    names = [f"{start}{'ä' * 100}{'x' * 54}" for start in "abcdefgh"]
    assert len(names[0].encode()) == 255
    payloads = {name: Payload(name[0].encode() * 500_000) for name in names}
    for name, payload in payloads.items():
        payload.write(writer, tmp_path / name)
    writer.wait_all()
    assert writer.error is None
    assert names_in(tmp_path) == names
    assert all((tmp_path / name).read_bytes() == payloads[name].data for name in names)


def names_created(directory: Path, act: Callable[[], None]) -> list[str]:
    """The names that appear in ``directory`` while ``act`` runs, also for a moment only."""
    library = ctypes.CDLL(None, use_errno=True)
    queue = library.inotify_init()
    created, moved_here = 0x100, 0x80
    try:
        assert library.inotify_add_watch(queue, os.fsencode(directory), created | moved_here) > 0
        act()
        events, names = os.read(queue, 1 << 16), []
    finally:
        os.close(queue)
    while events:
        length = int.from_bytes(events[12:16], sys.byteorder)
        names.append(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")))
        events = events[16 + length :]
    return names


@pytest.mark.parametrize("name", parameters("native-named", "python"))
@pytest.mark.parametrize("long", [False, True])
def test_a_file_being_written_has_a_partial_name(name: str, long: bool, tmp_path: Path) -> None:
    final = ("é" * 127 if long else "mul.Default_net_mul-op1") + "."
    writer = IMPLEMENTATIONS[name](1, GIGABYTE)

    def write() -> None:
        writer.wait(writer.write_text(str(tmp_path / final), b"the text"))

    first = names_created(tmp_path, write)
    second = names_created(tmp_path, write)
    writer.close()
    assert writer.error is None
    assert names_in(tmp_path) == [final]
    assert [names[-1] for names in (first, second)] == [final, final]
    assert is_partial(first[0])
    assert is_partial(second[0])
    assert first[0] != second[0]  # and so it cannot be foreseen


# ---------------------------------------------------------------- memory


def test_objects_that_a_job_holds_live_until_it_is_written(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, GIGABYTE)
    gate = Gate(writer, tmp_path, elsewhere)
    payload = Payload(b"x" * 100)
    alive = weakref.ref(payload)
    job = payload.write(writer, tmp_path / "file", b"header")
    del payload
    assert writer.pending_bytes == 106
    assert alive() is not None
    gate.open()
    writer.wait(job)
    assert writer.pending_bytes == 0
    assert alive() is None


def test_objects_that_a_job_held_are_released_by_the_calling_thread(
    opened: Open, tmp_path: Path
) -> None:
    released_by: list[int] = []

    class Keep:
        def __del__(self) -> None:
            released_by.append(threading.get_ident())

    writer = opened(2, GIGABYTE)
    for number in range(50):
        writer.write(str(tmp_path / str(number)), b"x", 0, 0, Keep())
    writer.wait_all()
    assert released_by == [threading.get_ident()] * 50


def test_releasing_may_use_the_writer(opened: Open, tmp_path: Path) -> None:
    class Keep:
        def __del__(self) -> None:
            writer.write_text(str(tmp_path / "from the end"), str(writer.pending_bytes).encode())

    writer = opened(1, GIGABYTE)
    writer.wait(writer.write(str(tmp_path / "file"), b"x", 0, 0, Keep()))
    writer.close()
    assert names_in(tmp_path) == ["file", "from the end"]


def test_a_full_budget_makes_the_caller_wait(queued: Open, tmp_path: Path, elsewhere: Path) -> None:
    writer = queued(1, 1000)
    gate = Gate(writer, tmp_path, elsewhere)
    payload = Payload(b"x" * 600)
    payload.write(writer, tmp_path / "0")
    writer.write_text(str(tmp_path / "1"), b"y" * 400)
    assert writer.pending_bytes == 1000
    blocked = threading.Thread(target=payload.write, args=(writer, tmp_path / "2"))
    blocked.start()
    blocked.join(0.15)
    assert blocked.is_alive()
    assert writer.pending_bytes == 1000
    gate.open()
    blocked.join()
    writer.wait_all()
    assert (tmp_path / "2").read_bytes() == payload.data


def test_jobs_beyond_the_budget_are_written_one_by_one(opened: Open, tmp_path: Path) -> None:
    writer = opened(2, 10)
    payload = Payload(b"x" * 100_000)
    for number in range(20):
        payload.write(writer, tmp_path / str(number))
        assert writer.pending_bytes in (0, 100_000)
    writer.wait_all()
    assert all((tmp_path / str(number)).stat().st_size == 100_000 for number in range(20))


def test_memory_may_change_after_the_writer_owns_a_copy(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, GIGABYTE)
    gate = Gate(writer, tmp_path, elsewhere)
    payload = Payload(b"before" * 50_000)
    alive = weakref.ref(payload)
    job = payload.write(writer, tmp_path / "file", b"header")
    pending = writer.pending_bytes
    writer.own(job)
    writer.own(job)
    payload.array[:] = 0
    del payload
    assert writer.pending_bytes == pending
    assert alive() is None
    gate.open()
    writer.wait(job)
    writer.own(job)
    assert (tmp_path / "file").read_bytes() == b"header" + b"before" * 50_000


@pytest.mark.parametrize("name", parameters("native-named"))
def test_owning_waits_for_a_file_being_written(name: str, tmp_path: Path) -> None:
    writer = IMPLEMENTATIONS[name](1, GIGABYTE)
    payload = Payload(b"x" * 50_000_000)
    job = payload.write(writer, tmp_path / "file")
    while not names_in(tmp_path):  # until the thread has opened it, and reads the memory
        pass
    writer.own(job)
    assert names_in(tmp_path) == ["file"]
    assert writer.pending_bytes == 0
    writer.close()


# ---------------------------------------------------------------- the choice


@needs_native
def test_the_native_writer_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SONDE_WRITER", raising=False)
    assert isinstance(open_writer(1, 1), native.Writer)


def test_without_the_native_writer_the_plain_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SONDE_WRITER", raising=False)
    monkeypatch.delattr("sonde.dump.writing._writer", raising=False)
    monkeypatch.setitem(sys.modules, "sonde.dump.writing._writer", None)
    writer = open_writer(1, 1)
    assert isinstance(writer, PythonWriter)
    writer.close()
    monkeypatch.setenv("SONDE_WRITER", "native")
    with pytest.raises(ImportError):
        open_writer(1, 1)


def test_the_environment_chooses_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONDE_WRITER", "python")
    writer = open_writer(1, 1)
    assert isinstance(writer, PythonWriter)
    writer.close()
    monkeypatch.setenv("SONDE_WRITER", "fast")
    with pytest.raises(UsageError, match="native or python"):
        open_writer(1, 1)
