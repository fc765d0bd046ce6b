"""Options that several functions or commands declare together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sonde.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """Add ``options`` to ``command``, in the order of the help."""
    for option in reversed(options):
        command = option(command)
    return command


def refuse_without(needed: str, given: Mapping[str, bool]) -> None:
    """UsageError for the first option that is ``given`` although it means nothing without
    ``needed``."""
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} needs {needed}", slug="usage")
