"""The line of the user's code to which a frame or a function belongs."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import FrameType

from sonde.core.graph import Source


class Places:
    """Finds lines of the user's code; ``is_user_file`` says whether a file is the user's.

    May be used from several threads.
    """

    def __init__(self, is_user_file: Callable[[str], bool]) -> None:
        self._is_user_file = is_user_file

    def innermost(self, frame: FrameType | None) -> Source | None:
        """The innermost line of the user's code on the stack of ``frame``."""
        while frame is not None:
            code = frame.f_code
            if self._is_user_file(code.co_filename):
                return source_at(
                    code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name
                )
            frame = frame.f_back
        return None

    def of_function(self, function: object) -> Source | None:
        """The line that defines a function of the user; None for functions not in Python."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None or not self._is_user_file(code.co_filename):
            return None
        return source_at(code.co_filename, code.co_firstlineno, code.co_name)


def source_at(file: str, line: int, function: str) -> Source:
    """A line of a file with its text, which is empty if the file cannot be read."""
    return Source(file, line, function, linecache.getline(file, line).strip())
