"""Reports are sent in their order, whoever is interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import pytest
from tests.core.test_interruption import ProgramTimeoutError, ends

from sonde.adapters.torch.ranks.sending import outbox as outbox_module
from sonde.adapters.torch.ranks.sending.outbox import MOST_WAITING, Outbox
from sonde.ranks.report import RankReport, SpotReport

FILE = outbox_module.__file__


def report(number: int) -> RankReport:
    return SpotReport(number, ())


def test_reports_are_sent_in_their_order_and_the_oldest_dropped() -> None:
    outbox = Outbox()
    for number in range(MOST_WAITING + 3):
        outbox.add(report(number))
    sent: list[RankReport] = []
    outbox.empty(sent.extend, waits=True)
    assert sent == [report(number) for number in range(3, MOST_WAITING + 3)]
    assert outbox.dropped == 3


def test_a_thread_that_must_not_wait_leaves_the_sending_to_another() -> None:
    outbox = Outbox()
    sent: list[RankReport] = []

    def send(reports: tuple[RankReport, ...]) -> None:
        if not sent:
            outbox.add(report(1))
            assert ends(lambda: outbox.empty(sent.extend, waits=False))
            assert not sent
        sent.extend(reports)

    outbox.add(report(0))
    outbox.empty(send, waits=True)
    assert sent == [report(0), report(1)]


@pytest.mark.parametrize("waits", [True, False])
def test_a_thread_that_was_interrupted_while_it_sent_keeps_no_other_from_sending(
    waits: bool,
) -> None:
    for number in range(1, 1000):
        outbox = Outbox()
        outbox.add(report(0))
        sent: list[RankReport] = []
        with suppress(ProgramTimeoutError), interrupted_after(number, FILE) as count:
            outbox.empty(sent.extend, waits=waits)
        outbox.add(report(1))
        assert ends(lambda: outbox.empty(sent.extend, waits=True))  # noqa: B023 - called here
        assert sent[-1] == report(1)
        if count() < number:
            break
    assert 3 < number < 1000


@contextmanager
def interrupted_after(number: int, file: str) -> Iterator[Callable[[], int]]:
    """Raise as a signal handler does when so many C functions, called from this file, have
    returned: Python looks for signals after each of them."""
    count = 0

    def profiler(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "c_return" and frame.f_code.co_filename == file:
            count += 1
            if count == number:
                raise ProgramTimeoutError

    sys.setprofile(profiler)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)
