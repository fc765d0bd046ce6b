"""The line of the user's own code that a frame belongs to."""

from __future__ import annotations

import os
import sys
from types import FrameType

from sonde.adapters.torch import private
from sonde.core.own_code import is_own

_SONDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))) + os.sep


def line_of(frame: FrameType | None) -> str:
    """``train.py:8``, the innermost line of the user's own code; empty without one."""
    for each in private.frames_from(frame):
        file = each.f_code.co_filename
        if not file.startswith((_SONDE, "<")) and is_own(file):
            return f"{os.path.basename(file)}:{each.f_lineno}"
    return ""


def calling_line() -> str:
    """The line of the user's code that called Sonde."""
    return line_of(sys._getframe(1))
