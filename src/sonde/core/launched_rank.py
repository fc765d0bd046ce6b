"""The rank that environment variables give a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN_RANK: Final = "SONDE_RANK"
"""Set by Sonde where a program starts its ranks itself, and does not set ``RANK``."""


def launched_rank(environ: Mapping[str, str]) -> int | None:
    """The rank that the launcher says; None without a launcher."""
    for name in ("RANK", OWN_RANK):
        text = environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None


def is_first_rank(environ: Mapping[str, str]) -> bool:
    """Whether this process prints and writes what one rank does for all."""
    return not launched_rank(environ)
