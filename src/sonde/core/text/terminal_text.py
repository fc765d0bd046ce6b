"""Texts of others (names of ops, lines of ranks and files) on the user's terminal."""

from __future__ import annotations

import sys

from sonde.core.interruption import is_interruption


def printable(text: str, *, keep: str = "") -> str:
    """``text`` with every character that a terminal would execute, or that reorders or hides
    others, written as an escape such as ``\\x1b``; those in ``keep`` stay.

    Without it the name of an op could clear the screen, set the clipboard or fake lines.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text
    )


def write_to_stderr(text: str) -> None:
    """Write ``text`` if the program has left a standard error that takes it."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except Exception as error:  # The program may have closed it, or put any object in its place.
        if is_interruption(error):
            raise


def is_stderr_terminal() -> bool:
    """Whether the standard error that the program has left is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except Exception as error:
        if is_interruption(error):
            raise
        return False
