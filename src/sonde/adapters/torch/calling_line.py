"""The line of the user's own code that called Sonde, or that a frame belongs to."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from types import FrameType

from sonde.adapters.torch import private
from sonde.core.graph import Source
from sonde.core.own_code import is_own
from sonde.core.text.notebook_cells import shown_file

_SONDE = os.path.join(os.path.dirname(os.path.abspath(__file__)).rsplit("adapters", 1)[0], "")


def is_program(file: str) -> bool:
    """Whether ``file`` is the user's own code: neither a library's nor Sonde's."""
    return not file.startswith((_SONDE, "<")) and is_own(file)


def own_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's own code."""
    return next(
        (each for each in private.frames_from(frame) if is_program(each.f_code.co_filename)), None
    )


def caller() -> Source | None:
    """The line of the user's code that called Sonde; None without one."""
    frame = own_frame(sys._getframe(1))
    if frame is None:
        return None
    return source_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def calling_line() -> str:
    """The line of the user's code that called Sonde, as by `line_of`."""
    return line_of(sys._getframe(1))


def line_of(frame: FrameType | None) -> str:
    """``train.py:8``, the innermost line of the user's own code; empty without one."""
    own = own_frame(frame)
    if own is None:
        return ""
    return f"{os.path.basename(shown_file(own.f_code.co_filename))}:{own.f_lineno}"


def source_of(file: str, line: int, function: str) -> Source:
    """The line with its text."""
    return _source_of(file, shown_file(file), line, function)


@functools.lru_cache(maxsize=4096)
def _source_of(file: str, shown: str, line: int, function: str) -> Source:
    return Source(shown, line, function, linecache.getline(file, line).strip())
