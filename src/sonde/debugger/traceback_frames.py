"""The traceback of the error that ended a program, for the page."""

from __future__ import annotations

import os
import traceback
from typing import Final

import sonde
from sonde.core.own_code import is_own
from sonde.wire.shapes import SourceLine, TracebackFrame

_MOST_FRAMES: Final = 50
_MOST_CODE: Final = 500
_SONDE: Final = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep
_LAUNCHERS: Final = ("<frozen", "runpy.py")


def traceback_frames(error: BaseException | None) -> tuple[TracebackFrame, ...]:
    """The frames of ``error``, outermost first, without those of Sonde and of Python's start; the
    innermost ones if there are many."""
    if not isinstance(error, Exception):
        return ()
    found = [
        TracebackFrame(
            SourceLine(each.filename, each.lineno or 0, each.name, (each.line or "")[:_MOST_CODE]),
            is_own(each.filename),
        )
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith((_SONDE, *_LAUNCHERS[:1]))
        and not each.filename.endswith(_LAUNCHERS[1:])
    ]
    return tuple(found[-_MOST_FRAMES:])
