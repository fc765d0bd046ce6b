"""The access token of a server: made at random, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from sonde.core.errors import UsageError

SHORTEST_TOKEN: Final = 16
"""Characters. 64 bits if they are hexadecimal digits: at 10,000 guesses per second, more than this
server answers, a search takes some 30 million years."""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def checked_token(token: str) -> str:
    """Return ``token`` if it can be sent in a header and is long enough; else raise UsageError."""
    if not all("!" <= letter <= "~" for letter in token):
        raise UsageError(
            "a token may contain only printable ASCII characters, without spaces", slug="usage"
        )
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"a token of {len(token)} characters can be guessed: use at least {SHORTEST_TOKEN} "
            "characters, or omit the token and the server generates one",
            slug="token",
        )
    return token


class TokenCheck:
    """The token of one server, for all its ports."""

    def __init__(self, token: str) -> None:
        self.token = checked_token(token)

    def accepts(self, given: Sequence[str]) -> bool:
        """Whether one of ``given`` is the token; takes the same time wherever they differ."""
        expected = self.token.encode()
        found = [hmac.compare_digest(each.encode("utf-8", "replace"), expected) for each in given]
        return any(found)
