"""The token of a server: one that nobody can guess, looked at in constant time."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from sonde.core.errors import UsageError

FEWEST_LETTERS: Final = 16
"""Of a token. 64 bits if they are digits of base 16: who tries 10,000 in a second, which no server
answers, needs some 30 million years."""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def checked_token(token: str) -> str:
    """The token as somebody gave it; UsageError if it could be guessed or not be sent."""
    if not all("!" <= letter <= "~" for letter in token):
        raise UsageError("a token has letters, digits and signs of ASCII, no spaces", slug="usage")
    if len(token) < FEWEST_LETTERS:
        raise UsageError(
            f"a token of {len(token)} letters could be guessed; give one of {FEWEST_LETTERS} or "
            "more, or none where others can connect: then one is made up",
            slug="token",
        )
    return token


class Door:
    """The token of one server, for all its ports; empty: everybody may come in."""

    def __init__(self, token: str) -> None:
        self.token = token

    def opens(self, given: Sequence[str]) -> bool:
        """Whether one of ``given`` is right; takes as long wherever they differ."""
        found = [hmac.compare_digest(each.encode(), self.token.encode()) for each in given]
        return any(found) or not self.token
