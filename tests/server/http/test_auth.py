"""A token opens, nothing else does, and none is taken that could be guessed."""

from collections.abc import Sequence

import pytest

from sonde.core.errors import UsageError
from sonde.server.http.auth import SHORTEST_TOKEN, TokenCheck, checked_token, new_token


def test_a_token_that_is_made_up_cannot_be_guessed() -> None:
    assert checked_token(new_token())
    assert len({new_token() for _ in range(100)}) == 100


TOKEN = "right-and-long-enough"


@pytest.mark.parametrize(
    "given",
    [[""], ["wrong"], [f"{TOKEN} "], [TOKEN.upper()], ["x", TOKEN[:-1]], ["\ud800"], []],
)
def test_only_the_token_opens(given: Sequence[str]) -> None:
    assert not TokenCheck(TOKEN).accepts(given)
    assert TokenCheck(TOKEN).accepts([*given, TOKEN])


def test_a_server_without_a_token_cannot_be_made() -> None:
    with pytest.raises(UsageError):
        TokenCheck("")


@pytest.mark.parametrize("token", ["x", "secret", "x" * (SHORTEST_TOKEN - 1)])
def test_a_token_that_could_be_guessed_is_not_taken(token: str) -> None:
    with pytest.raises(UsageError, match=f"of {len(token)} characters can be guessed") as caught:
        checked_token(token)
    assert caught.value.slug == "token"


@pytest.mark.parametrize(
    "token", ["", "two words that are long", "späterer Zugang für alle", "a\nb"]
)
def test_a_token_that_cannot_be_sent_is_not_taken(token: str) -> None:
    with pytest.raises(UsageError):
        checked_token(token)


def test_one_that_is_long_enough_may_have_any_signs() -> None:
    signs = "".join(map(chr, range(ord("!"), ord("~") + 1)))
    assert checked_token(signs) == signs
    assert checked_token("x" * SHORTEST_TOKEN) == "x" * SHORTEST_TOKEN
