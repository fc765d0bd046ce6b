"""How waiting for the background writer ends: done, interrupted, closed, failed."""

from __future__ import annotations

import errno
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from tests.dump.writing.writers import GIGABYTE, Gate, Open, Payload, names_in, native, needs_native

from sonde.core.files import atomic_file
from sonde.dump.writing import python_writer
from sonde.dump.writing.python_writer import PythonWriter


def test_waiting_reports_progress_in_the_thread_that_waits(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, GIGABYTE)
    gate = Gate(writer, tmp_path, elsewhere)
    writer.write_text(str(tmp_path / "text"), b"x" * 77)
    reports: list[tuple[int, int, int]] = []

    def progress(jobs: int, pending: int) -> None:
        reports.append((jobs, pending, threading.get_ident()))
        if len(reports) == 3:
            gate.open()

    writer.wait_all(progress, interval_seconds=0.01)
    assert reports[:3] == [(2, 77, threading.get_ident())] * 3
    assert writer.pending_bytes == 0


def test_an_error_of_progress_ends_the_waiting(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, GIGABYTE)
    gate = Gate(writer, tmp_path, elsewhere)

    def progress(jobs: int, pending: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.wait_all(progress, 0.01)
    gate.open()


class InterruptedWaitError(Exception):
    """What the handler of the signal raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """Raises an error in the main thread, as Ctrl-C does, a moment after it is called."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterruptedWaitError

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.05) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("call", ["write", "wait", "wait_all", "close"])
def test_a_signal_interrupts_every_wait(
    call: str, queued: Open, tmp_path: Path, elsewhere: Path, alarm: Callable[[], None]
) -> None:
    writer = queued(1, 100)
    gate = Gate(writer, tmp_path, elsewhere)
    job = Payload(b"x" * 80).write(writer, tmp_path / "first")
    waits: dict[str, Callable[[], object]] = {
        "write": lambda: Payload(b"y" * 80).write(writer, tmp_path / "second"),
        "wait": lambda: writer.wait(job),
        "wait_all": writer.wait_all,
        "close": writer.close,
    }
    alarm()
    with pytest.raises(InterruptedWaitError):
        waits[call]()
    gate.open()
    writer.wait(writer.write_text(str(tmp_path / "still open"), b""))
    assert names_in(tmp_path) == ["first", "gate", "still open"]


def test_an_interrupted_write_keeps_nothing(
    queued: Open, tmp_path: Path, elsewhere: Path, alarm: Callable[[], None]
) -> None:
    writer = queued(1, 100)
    gate = Gate(writer, tmp_path, elsewhere)
    writer.write_text(str(tmp_path / "text"), b"x" * 100)
    payload = Payload(b"y" * 100)
    references = sys.getrefcount(payload)
    alarm()
    with pytest.raises(InterruptedWaitError):
        payload.write(writer, tmp_path / "never")
    assert sys.getrefcount(payload) == references
    assert writer.pending_bytes == 100
    gate.open()


def test_a_closed_writer_keeps_its_counts_and_accepts_no_more_jobs(
    opened: Open, tmp_path: Path
) -> None:
    writer = opened(2, GIGABYTE)
    threads = threading.active_count()
    payload = Payload(b"x" * 10)
    alive = weakref.ref(payload)
    job = payload.write(writer, tmp_path / "file", b"header")
    del payload
    writer.close()
    writer.close()
    assert alive() is None
    assert threading.active_count() <= threads
    assert (writer.written_bytes, writer.pending_bytes) == (16, 0)
    assert writer.error is None
    writer.wait(job)
    writer.wait_all()
    for call in (
        lambda: writer.write_text(str(tmp_path / "late"), b""),
        lambda: writer.write(str(tmp_path / "late"), b"", 0, 0, None),
        lambda: writer.link(job, str(tmp_path / "late")),
        lambda: writer.barrier_rename(str(tmp_path), str(tmp_path / "late")),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


@needs_native
def test_a_dropped_native_writer_finishes(tmp_path: Path) -> None:
    writer = native.Writer(2, GIGABYTE)
    payload = Payload(b"x" * 1_000_000)
    for number in range(50):
        payload.write(writer, tmp_path / str(number))
    alive = weakref.ref(payload)
    del payload, writer
    assert alive() is None
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [1_000_000] * 50


# ---------------------------------------------------------------- failure and misuse


def test_a_vanished_directory_ends_the_writing_and_nothing_else(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, 1000)
    gate = Gate(writer, tmp_path, elsewhere)
    directory = tmp_path / "directory"
    directory.mkdir()
    payload = Payload(b"x" * 1000)
    job = payload.write(writer, directory / "file")
    writer.link(job, str(tmp_path / "link"))
    writer.barrier_rename(str(tmp_path), str(tmp_path.parent / "renamed"))
    directory.rmdir()
    gate.open()
    writer.wait_all()
    assert isinstance(writer.error, FileNotFoundError)
    assert writer.error.errno == errno.ENOENT
    assert writer.error.filename == str(directory / "file")
    for number in range(20):  # Far more than the budget: nothing waits any more.
        late = payload.write(writer, tmp_path / f"late {number}")
        assert writer.pending_bytes == 0
        writer.wait(late)
    assert writer.link(late, str(tmp_path / "late link"))
    alive = weakref.ref(payload)
    del payload
    writer.close()
    assert alive() is None
    assert names_in(tmp_path) == ["gate"]
    assert writer.written_bytes == 0


def test_a_directory_in_the_way_is_an_error(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    writer = opened(1, GIGABYTE)
    writer.write_text(str(tmp_path / "file"), b"text")
    writer.wait_all()
    assert isinstance(writer.error, IsADirectoryError)
    assert writer.error.filename == str(tmp_path / "file")
    assert names_in(tmp_path) == ["file"]


def test_renaming_what_is_not_there_is_an_error(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, GIGABYTE)
    writer.barrier_rename(str(tmp_path / "nothing"), str(tmp_path / "new"))
    writer.wait_all()
    assert isinstance(writer.error, FileNotFoundError)
    assert writer.error.filename == str(tmp_path / "nothing")


@pytest.mark.parametrize("path", ["relative", "", "/nul\0byte", "/directory/"])
def test_a_path_that_is_no_absolute_file_is_refused(opened: Open, path: str) -> None:
    writer = opened(1, GIGABYTE)
    with pytest.raises(ValueError, match="path must"):
        writer.write_text(path, b"")
    with pytest.raises(ValueError, match="path must"):
        writer.write(path, b"", 0, 0, None)


def test_impossible_arguments_are_refused(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, GIGABYTE)
    path = str(tmp_path / "file")
    with pytest.raises(TypeError):
        writer.write_text(path, "text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.write(tmp_path, b"", 0, 0, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nbytes"):
        writer.write(path, b"", 0, -1, None)
    for call in (writer.wait, writer.own, lambda job: writer.link(job, path)):
        with pytest.raises(ValueError, match="no job 1"):
            call(1)
    for threads, budget in ((0, 1), (1, 0), (257, 1)):
        with pytest.raises(ValueError, match="threads must be"):
            opened(threads, budget)
    with pytest.raises(ValueError, match="interval_seconds"):
        writer.wait_all(None, 0.0)


# A file is closed by the death of its object if the time-out comes right after it was opened.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_time_out_of_the_program_is_no_failure_of_the_python_writer(tmp_path: Path) -> None:
    writer = PythonWriter(1, GIGABYTE)
    files = (atomic_file.__file__, python_writer.__file__)
    raised = 0
    for number in range(1, 1000):
        left = number

        def profiler(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            if event == "c_return" and frame.f_code.co_filename in files:
                left -= 1
                if left == 0:
                    raise TimeoutError("of the program")

        try:
            sys.setprofile(profiler)  # Raising removes it.
            writer.write_text(str(tmp_path / f"{number}"), b"text")
            break
        except TimeoutError:
            raised += 1
        finally:
            sys.setprofile(None)
        assert writer.error is None
    assert raised == number - 1 > 5
    assert (tmp_path / f"{number}").read_bytes() == b"text"
