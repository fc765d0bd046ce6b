"""Names of ops that are given before the first step has shown which ops there are."""

from __future__ import annotations

import difflib
from typing import Final

from sonde.core.errors import UsageError
from sonde.core.graph import GRADIENTS
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.search import module_path

_FORWARD: Final = "Default/"
_RECOMPUTED: Final = "recompute_"
_ROOTS: Final = (_FORWARD, GRADIENTS, f"{_RECOMPUTED}{_FORWARD}")
"""How full names of ops begin."""
_MOST_NEAR: Final = 3


def possible_target(index: GraphIndex | None, text: str) -> str:
    """The op or scope to run to, by its full name: ``text`` if an op of that name may exist.

    ``index`` has what is known before the first step has ended, and nothing in it is called
    ``text``. UsageError if ``text`` is not a full name, or names a module that its network does
    not have.
    """
    scopes = [] if index is None else [scope.path for scope in index.scopes if scope.path]
    if not text.startswith(_ROOTS):
        raise UsageError(
            f"no op or scope matches {text!r} in what is known before the first step; run a step "
            f"first, or give the full name{_near(text, scopes)}",
            slug="no-such-op",
        )
    scope = _forward(text if text.endswith("/") else f"{text.rpartition('/')[0]}/")
    network = "/".join(scope.split("/")[:2]) + "/"
    # Another network may begin to run later.
    if network in scopes and scope not in scopes:
        raise UsageError(
            f"{text} cannot run: {network} has no module {scope}{_near(scope, scopes)}",
            slug="no-such-scope",
        )
    return text


def _forward(scope: str) -> str:
    """The scope of the forward pass that a scope of the backward pass belongs to."""
    return scope.removeprefix(GRADIENTS).removeprefix(_RECOMPUTED)


def _near(text: str, scopes: list[str]) -> str:
    """The known names that are similar to ``text``, written as the user wrote it."""
    if text.startswith(_ROOTS):
        names = scopes
    elif text.endswith("/"):
        names = [f"{scope.rstrip('/').rpartition('/')[2]}/" for scope in scopes]
    else:
        names = [name for name in map(module_path, scopes) if name]
        names += [scope.rstrip("/").rpartition("/")[2] for scope in scopes]
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(text.lower(), by_lower, n=_MOST_NEAR)
    if not close:
        return ""
    return "; did you mean " + " or ".join(repr(by_lower[name]) for name in close) + "?"
