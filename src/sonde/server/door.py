"""Who has the server's token: looked at in constant time, and slowly for who guesses.

A token that nobody can guess is only looked at. A short one, which somebody chose, could be tried
out: after several wrong ones, those of an address wait their turn (``attempts``). Whoever has
shown the token once has a ticket, which is as good as a long token, and never waits behind others
that guess: a browser its cookie, the programs of this user the one in the server's file.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from sonde.server.attempts import Attempts

UNGUESSABLE: Final = 22
"""Letters of a token that is only looked at; 128 bits, if it was made up by a program."""

Verdict = Literal["in", "wrong", "too many"]


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Door:
    """The token of one server, for all its ports; empty: everybody may come in.

    Used in the event loop's thread only. Whose turn it is not yet waits in ``pause``.
    """

    def __init__(
        self,
        token: str,
        attempts: Attempts | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.token = token
        # The token in it opens a server that was started again with the same one.
        self.ticket = f"{new_token()}.{token}" if token else ""
        self._attempts = Attempts() if attempts is None else attempts
        self._pause = pause

    async def judge(self, given: Sequence[str], address: str) -> Verdict:
        """Whether one of ``given`` is right; "too many": they were not looked at, because so many
        of that address wait already."""
        if not self.token or _is_any(given, self.ticket):
            return "in"
        if len(self.token) < UNGUESSABLE:
            delay = self._attempts.delay(address)
            if delay is None:
                return "too many"
            if delay:
                await self._pause(delay)
        if _is_any([*given, *(each.partition(".")[2] for each in given)], self.token):
            return "in"
        self._attempts.failed(address)
        return "wrong"


def _is_any(given: Sequence[str], right: str) -> bool:
    """Takes as long wherever they differ."""
    found = [hmac.compare_digest(each.encode(), right.encode()) for each in given]
    return any(found)
