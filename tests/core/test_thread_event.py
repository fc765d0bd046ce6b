"""An event between threads, also if a signal handler of the program interrupts its methods."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.core.test_interruption import ends, every_interruption

from sonde.core.threads import thread_event
from sonde.core.threads.thread_event import ThreadEvent


def test_it_is_set_and_cleared() -> None:
    event = ThreadEvent()
    assert not event.is_set()
    assert not event.wait(0.0)
    for _ in range(2):
        event.set()
        event.set()
        assert event.is_set()
        assert event.wait()
        event.clear()
        event.clear()
        assert not event.wait(0.0)


def test_a_thread_waits_until_another_sets_it() -> None:
    asked, answered = ThreadEvent(), ThreadEvent()
    turns: list[int] = []

    def answer() -> None:
        for turn in range(1000):
            asked.wait()
            asked.clear()
            turns.append(turn)
            answered.set()

    def ask() -> None:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        for turn in range(1000):
            asked.set()
            while not answered.wait():
                pass
            answered.clear()
            assert turns[-1] == turn

    assert ends(ask)


@pytest.mark.parametrize("method", [ThreadEvent.set, ThreadEvent.clear, ThreadEvent.wait])
def test_an_interrupted_method_blocks_nobody(method: Callable[[ThreadEvent], object]) -> None:
    def use() -> None:
        event = ThreadEvent()
        if method is ThreadEvent.wait:
            event.set()
        every_interruption(lambda: method(event), [thread_event.__file__])
        event.set()
        assert event.wait()
        event.clear()
        threading.Thread(target=event.set, daemon=True).start()
        while not event.wait():
            pass

    assert ends(use)
