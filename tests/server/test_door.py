"""A right token is taken whoever guesses; guessing a short one is slowed down."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message
from tests.server.test_attempts import Clock

from sonde.server.attempts import FREE, MOST_WAITING, SLOT_SECONDS, Attempts
from sonde.server.door import UNGUESSABLE, Door, new_token
from sonde.server.security import Guard

LONG = "x" * UNGUESSABLE


class Waits:
    """A door whose time passes when it is told to; ``waited`` is what it made others wait."""

    def __init__(self, token: str) -> None:
        self.clock = Clock()
        self.waited: list[float] = []
        self.attempts = Attempts(self.clock)
        self.door = Door(token, self.attempts, self._pause)

    async def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)

    def judge(self, *given: str, address: str = "192.0.2.1") -> str:
        return asyncio.run(self.door.judge(given, address))

    def be_besieged(self) -> None:
        """So many tokens wait to be looked at that no more are taken."""
        for _ in range(FREE):
            self.judge("wrong")
        while self.attempts.delay("192.0.2.1") is not None:
            pass


def test_a_token_that_is_made_up_cannot_be_guessed() -> None:
    assert len(new_token()) >= UNGUESSABLE
    assert len({new_token() for _ in range(100)}) == 100


@pytest.mark.parametrize("given", [[""], ["wrong"], ["right "], ["Right"], ["wrong", "righ"], []])
def test_only_the_token_opens(given: Sequence[str]) -> None:
    assert Waits("right").judge(*given) == "wrong"
    assert Waits("right").judge(*given, "right") == "in"
    assert Waits("").judge(*given) == "in"


def test_a_long_token_gets_in_however_many_guess() -> None:
    found = Waits(LONG)
    for _ in range(10 * FREE):
        assert found.judge("wrong") == "wrong"
    assert found.judge(LONG) == "in"
    assert found.waited == []


def test_a_short_one_waits_its_turn_and_then_gets_in() -> None:
    found = Waits("right")
    assert [found.judge("wrong") for _ in range(FREE)] == ["wrong"] * FREE
    assert found.waited == []
    assert found.judge("right") == "in"
    assert found.waited == [SLOT_SECONDS]
    found.be_besieged()
    assert found.judge("wrong") == found.judge("right") == "too many"
    assert found.judge("right", address="192.0.2.2") == "in"
    found.clock.now += MOST_WAITING * SLOT_SECONDS
    assert found.judge("right") == "in"


def test_who_was_in_before_never_waits() -> None:
    found = Waits("right")
    found.be_besieged()
    assert found.judge(found.door.ticket) == "in"
    assert found.judge(f"{new_token()}.right") == "too many"


def test_a_ticket_opens_a_server_that_was_started_again_with_the_same_token() -> None:
    ticket = Door("right").ticket
    assert Waits("right").judge(ticket) == "in"
    assert Waits("other").judge(ticket) == "wrong"
    assert Door("right").ticket != ticket


def test_the_guard_knows_a_browser_while_others_guess_from_its_address() -> None:
    found = Waits("right")
    guard = Guard(PlainTextResponse("in"), host="0.0.0.0", port=1, door=found.door)

    def ask(path: str, **more: str) -> tuple[int, dict[str, str]]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"me"), *((k.encode(), v.encode()) for k, v in more.items())]
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "GET",
            "path": place,
            "query_string": query.encode(),
            "headers": headers,
            "client": ("192.0.2.1", 5),
        }
        asyncio.run(guard(scope, receive, send))
        return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}

    status, headers = ask("/?token=right")
    assert status == 303
    cookie = headers["set-cookie"].partition(";")[0]
    found.be_besieged()
    assert ask("/", cookie=cookie)[0] == 200
    status, headers = ask("/api/v1/runs", authorization="Bearer right")
    assert (status, headers["retry-after"]) == (429, "10")
    assert ask("/api/v1/runs", authorization=f"Bearer {found.door.ticket}")[0] == 200
