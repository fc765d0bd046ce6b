"""Exceptions that the program's signal handlers raise inside Sonde's functions."""

from __future__ import annotations

import itertools
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.trends.made_stores import MadeTraining, add_step, open_writer

from sonde.core import interruption
from sonde.core.interruption import hidden_interruption, pass_on, start_thread
from sonde.dump.reading.stored_statistics import stored_steps
from sonde.dump.statistic_store import row_writer
from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings
from sonde.monitor import ring as ring_file
from sonde.monitor.ring import SignalRing

QUEUES = (threading.__file__, queue.__file__)
THREADS = (threading.__file__, interruption.__file__, row_writer.__file__)


class ProgramTimeoutError(Exception):
    pass


@contextmanager
def interrupted_at(line: int, files: Sequence[str]) -> Iterator[Callable[[], int]]:
    """Raise as a signal handler would, when so many lines and returns of these files have run in
    this block; the function says how many have run."""
    count = 0

    def tracer(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event in ("line", "return") and frame.f_code.co_filename in files:
            count += 1
            if count == line:
                raise ProgramTimeoutError
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield lambda: count
    finally:
        sys.settrace(before)


def every_interruption(action: Callable[[], object], files: Sequence[str]) -> None:
    """Interrupt the action at each of its lines; each time the program's exception leaves it."""
    for line in range(1, 1000):
        with interrupted_at(line, files) as count:
            try:
                action()
            except ProgramTimeoutError:
                continue
            except Exception as error:  # What a caller in Sonde does.
                with pytest.raises(ProgramTimeoutError):
                    pass_on(error)
                continue
        assert count() < line  # It has come to its end.
        return
    raise AssertionError("the action is too long")


def test_a_thread_starts_whole_or_not_at_all(capfd: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    ran: list[int] = []
    every_interruption(
        lambda: start_thread(threading.Thread(target=lambda: ran.append(1))), THREADS
    )
    for each in threading.enumerate():
        if each is not threading.current_thread() and not each.daemon:
            each.join(10)
    assert ran
    assert threading.active_count() <= before + 1  # torch or a plug-in may have one
    assert capfd.readouterr().err == ""


def test_a_thread_that_the_system_refuses_is_an_error() -> None:
    thread = threading.Thread(target=lambda: None)
    start_thread(thread)
    with pytest.raises(RuntimeError, match="once"):
        start_thread(thread)


def test_writers_whose_user_was_interrupted_are_ended_at_exit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = StoreSettings(("max",), 1 << 20)
    written: list[RowWriter] = []
    every_interruption(
        lambda: written.append(RowWriter(tmp_path, OpTable(tmp_path), settings)), THREADS
    )
    row_writer._end_threads()
    left = [each.name for each in threading.enumerate() if each.name == "sonde-statistics"]
    assert not left
    assert capfd.readouterr().err == ""
    written[-1].close()  # A second time: it has ended already.


@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_rows_that_were_interrupted_on_their_way_block_neither_thread(
    tmp_path: Path, budget: int
) -> None:
    training = MadeTraining(layers=1, steps=1)
    arrays = training.arrays[0]
    ops, writer = open_writer(tmp_path, piece_seconds=0.0, budget_bytes=budget)
    steps = itertools.count()

    def add() -> None:
        add_step(ops, writer, training, next(steps), arrays)

    def train() -> None:
        every_interruption(add, (*QUEUES, row_writer.__file__, interruption.__file__))
        add()
        writer.close()

    assert ends(train)
    assert writer.error is None
    assert stored_steps(tmp_path)[-1].step == next(steps) - 1


def ends(action: Callable[[], object]) -> bool:
    """Whether ``action`` comes to its end, rather than wait for ever."""
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(action()), daemon=True)
    thread.start()
    thread.join(120)
    return bool(done)


def test_a_ring_that_was_interrupted_can_be_written_on(tmp_path: Path) -> None:
    ring = SignalRing(tmp_path / "ring", 0, rows=8)
    every_interruption(lambda: ring.know(["weight", "bias"]), [ring_file.__file__])
    known = len(ring.parameters)
    assert ring.know(["last"]) == known
    assert ring.parameters[known:] == ("last",)
    ring.close()


def test_an_interruption_behind_a_failed_clean_up_is_found() -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise ProgramTimeoutError

    def clean_up_fails() -> None:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception:
            raise KeyError("half done")  # noqa: B904 - as the standard library does

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyError) as failed:
            clean_up_fails()
        with pytest.raises(ProgramTimeoutError):
            pass_on(failed.value)
        found: BaseException | None = failed.value
        try:
            signal.raise_signal(signal.SIGUSR1)
        except ProgramTimeoutError:  # The program handles it, and goes on training.
            try:
                raise_own()
            except KeyError as error:
                trace = error.__traceback__
                inner = None if trace is None else trace.tb_next
                found = hidden_interruption(error.with_traceback(inner))  # as Sonde sees it
        assert found is None
    finally:
        signal.signal(signal.SIGUSR1, before)


def raise_own() -> None:
    raise KeyError("a failure of Sonde")
