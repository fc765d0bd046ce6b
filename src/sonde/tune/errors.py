"""The errors of a search."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sonde.core.errors import SondeError


class TuneError(SondeError):
    """A search that cannot start, continue, or be read."""


def require(module: str, package: str, purpose: str) -> Any:
    """Import a module of the optional extra ``tune``; a `TuneError` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise TuneError(
            f"{purpose} needs {package}: pip install 'sonde[tune]'", slug="extra-missing"
        ) from None
