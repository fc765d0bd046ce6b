"""Guessing a token is slowed down; the right one is taken whoever failed before."""

import pytest

from sonde.server import attempts
from sonde.server.attempts import FREE, MEMORY_SECONDS, MOST_WAITING, SLOT_SECONDS, Attempts


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(found: Attempts, address: str, times: int) -> None:
    for _ in range(times):
        found.failed(address)


def test_a_few_wrong_tokens_cost_nothing(clock: Clock) -> None:
    found = Attempts(clock)
    fail(found, "a", FREE - 1)
    assert found.delay("a") == 0.0
    fail(found, "a", 1)
    assert found.delay("a") == SLOT_SECONDS
    assert found.delay("b") == 0.0


def test_many_get_a_turn_each_and_more_are_sent_away(clock: Clock) -> None:
    found = Attempts(clock)
    fail(found, "a", FREE)
    turns = [found.delay("a") for _ in range(MOST_WAITING)]
    assert turns == [SLOT_SECONDS * (number + 1) for number in range(MOST_WAITING)]
    assert found.delay("a") is None
    clock.now += 2 * SLOT_SECONDS
    assert found.delay("a") == SLOT_SECONDS * (MOST_WAITING - 1)


def test_time_clears_the_record(clock: Clock) -> None:
    found = Attempts(clock)
    fail(found, "a", FREE)
    clock.now += MEMORY_SECONDS + 1
    assert found.delay("a") == 0.0
    assert len(found) == 0


def test_the_addresses_remembered_are_bounded(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MOST_ADDRESSES", 3)
    found = Attempts(clock)
    for address in "abcd":
        fail(found, address, FREE)
    assert len(found) == 3
    assert found.delay("a") == 0.0
    assert found.delay("d") == SLOT_SECONDS
