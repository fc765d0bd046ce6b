"""Texts of others (names of ops, lines of ranks and files) on the user's terminal."""

from __future__ import annotations


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
