"""Functions of torch that are replaced for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from sonde.adapters.torch import private


def replace_function(
    owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]], undo: ExitStack
) -> None:
    """Until ``undo`` is closed, ``owner`` has in place of the function ``name`` what ``make`` makes
    of it; hidden from dynamo. What somebody else put there meanwhile is left alone."""
    original = getattr(owner, name)
    replacement = functools.wraps(original)(make(original))
    private.hide_from_compiler(replacement)
    setattr(owner, name, replacement)

    def restore() -> None:
        if getattr(owner, name) is replacement:
            setattr(owner, name, original)

    undo.callback(restore)
