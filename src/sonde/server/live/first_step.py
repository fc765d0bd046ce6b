"""Names of ops that are given before the first step has shown which ops there are."""

from __future__ import annotations

from typing import Final

from sonde.core.errors import UsageError
from sonde.core.graph import GRADIENTS
from sonde.core.text.terminal_text import quoted
from sonde.server.graph.index import GraphIndex

_FORWARD: Final = "Default/"
_RECOMPUTED: Final = "recompute_"
_ROOTS: Final = (_FORWARD, GRADIENTS, f"{_RECOMPUTED}{_FORWARD}")
"""How full names of ops begin."""


def possible_target(index: GraphIndex | None, text: str) -> str:
    """The op or scope to run to, by its full name: ``text`` if an op of that name may exist.

    ``index`` has what is known before the first step has ended, and nothing in it is called
    ``text``. UsageError if ``text`` is not a full name, or names a module that its network does
    not have.
    """
    scopes = [] if index is None else [scope.path for scope in index.scopes if scope.path]
    if not text.startswith(_ROOTS):
        raise UsageError(
            f"no op or scope matches {quoted(text)} in what is known before the first step; run a "
            f"step first, or give the full name{'' if index is None else index.suggestion(text)}",
            slug="no-such-op",
        )
    scope = _forward(text if text.endswith("/") else f"{text.rpartition('/')[0]}/")
    network = "/".join(scope.split("/")[:2]) + "/"
    # Another network may begin to run later.
    if index is not None and network in scopes and scope not in scopes:
        raise UsageError(
            f"{text} cannot run: {network} has no module {scope}{index.suggestion(scope)}",
            slug="no-such-scope",
        )
    return text


def _forward(scope: str) -> str:
    """The scope of the forward pass that a scope of the backward pass belongs to."""
    return scope.removeprefix(GRADIENTS).removeprefix(_RECOMPUTED)
