"""Guessing a token is slowed down; the right one is taken whoever failed before."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from sonde.server import attempts
from sonde.server.attempts import FREE, MEMORY_SECONDS, MOST_WAITING, SLOT_SECONDS, Attempts
from sonde.server.security import Guard


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


def test_a_right_token_and_time_clear_the_record(clock: Clock) -> None:
    found = Attempts(clock)
    fail(found, "a", FREE)
    found.passed("a")
    assert found.delay("a") == 0.0
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


def test_the_guard_waits_then_refuses_and_still_takes_the_right_token(clock: Clock) -> None:
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    known = Attempts(clock)
    guard = Guard(
        PlainTextResponse("in"), host="0.0.0.0", port=1, token="right", attempts=known, pause=pause
    )

    def ask(token: str) -> tuple[int, dict[bytes, bytes]]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"me"), (b"authorization", f"Bearer {token}".encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/runs",
            "query_string": b"",
            "headers": headers,
            "client": ("192.0.2.1", 5),
        }
        asyncio.run(guard(scope, receive, send))
        return sent[0]["status"], dict(sent[0]["headers"])

    assert [ask("wrong")[0] for _ in range(FREE)] == [401] * FREE
    assert waited == []
    assert ask("wrong")[0] == 401
    assert waited == [SLOT_SECONDS]
    while known.delay("192.0.2.1") is not None:
        pass
    status, headers = ask("wrong")
    assert (status, headers[b"retry-after"]) == (429, b"10")
    clock.now += MOST_WAITING * SLOT_SECONDS
    assert ask("right")[0] == 200
    assert ask("wrong")[0] == 401
    assert ask("right")[0] == 200
    assert len(waited) == 2
